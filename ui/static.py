"""The page's own stylesheets, scripts and icon, served under addresses that change with their content.

Every address contains one mark of all files together: a script's relative imports then change their addresses with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from types import MappingProxyType

from fastapi import APIRouter, Response

from app.errors import NotFound

PREFIX = "/fader"
"""Not /assets: Gradio serves its own files there."""

_TYPES = MappingProxyType({".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"})
"""What is served at all: presets, for one, are not."""


@cache
def contents() -> Mapping[str, bytes]:
    """The bytes of every file that is served, by its path inside the assets, in alphabetical order."""
    return MappingProxyType(dict(sorted(_walk(resources.files("assets")))))


def _walk(folder: Traversable, place: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = f"{place}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{name}/")
        elif _suffix(name) in _TYPES:
            yield name, entry.read_bytes()


@cache
def mark() -> str:
    """Twelve hexadecimal digits that change when any file does."""
    digest = hashlib.sha256()
    for name, content in contents().items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def address(name: str) -> str:
    """The path of a file that a browser may keep for ever; raises NotFound for any name but the known ones."""
    if name not in contents():
        message = f"There is no file {name!r}."
        raise NotFound(message)
    return f"{PREFIX}/{mark()}/{name}"


def router() -> APIRouter:
    """``GET /fader/{mark}/{name}``; under another mark (an older page's) the file of now, which is not to be kept."""
    routes = APIRouter(prefix=PREFIX)

    @routes.get("/{asked}/{name:path}")
    def file(asked: str, name: str) -> Response:
        current = address(name).startswith(f"{PREFIX}/{asked}/")
        keep = "public, max-age=31536000, immutable" if current else "no-store"
        return Response(contents()[name], media_type=_TYPES[_suffix(name)], headers={"Cache-Control": keep})

    return routes


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix
