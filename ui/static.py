"""The page's own stylesheet, script and icon, served under an address that changes with their content."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources

from fastapi import APIRouter, Response

from app.errors import NotFound

PREFIX = "/fader"
"""Not /assets: Gradio serves its own files there."""

_TYPES = {
    "style.css": "text/css",
    "script.js": "text/javascript",
    "controls.css": "text/css",
    "controls.js": "text/javascript",
    "presets.js": "text/javascript",
    "insight.css": "text/css",
    "insight.js": "text/javascript",
    "playground.js": "text/javascript",
    "preview.js": "text/javascript",
    "transfer.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
NAMES = tuple(_TYPES)


@lru_cache(maxsize=8)
def content(name: str) -> bytes:
    """The bytes of one file; raises NotFound for any name but the known ones."""
    if name not in _TYPES:
        message = f"There is no file {name!r}."
        raise NotFound(message)
    return resources.files("assets").joinpath(name).read_bytes()


def address(name: str) -> str:
    """The path of a file, with a mark of its content so that a browser may keep it for ever."""
    return f"{PREFIX}/{name}?v={hashlib.sha256(content(name)).hexdigest()[:12]}"


def router() -> APIRouter:
    """``GET /fader/{name}``."""
    routes = APIRouter(prefix=PREFIX)

    @routes.get("/{name}")
    def file(name: str) -> Response:
        cache = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content(name), media_type=_TYPES.get(name), headers=cache)

    return routes
