"""Puts assets/first.js in front of everything else in the page: what Gradio takes as ``head`` comes only after it has started."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

from ui import static

NAME = "first.js"
_BEFORE = b"<head>"


class FirstScript:
    """ASGI middleware; changes the page at ``/`` and nothing else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._script = f'<script src="{static.address(NAME)}"></script>'.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold the page back until it is whole, and send it on with the script."""
        if scope["type"] != "http" or scope["path"] != "/":
            await self._app(scope, receive, send)
            return
        plain = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]}
        start: MutableMapping[str, Any] = {}
        body = b""

        async def send_whole(message: MutableMapping[str, Any]) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                whole = body.replace(_BEFORE, _BEFORE + self._script, 1)
                MutableHeaders(scope=start)["content-length"] = str(len(whole))
                await send(start)
                await send({"type": "http.response.body", "body": whole})

        await self._app(plain, receive, send_whole)
