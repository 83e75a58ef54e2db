"""Serves the page until it is interrupted: finds a free port, says where the page is, and opens the browser there."""

from __future__ import annotations

import socket
import sys
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn

from app.beacon import announced
from app.errors import RefusedInput
from app.garbage import importing
from ui.guard import check_exposure
from ui.server import create_app

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.chat import Chat
    from app.settings import Settings

TRIES = 50
"""Ports looked at from the wanted one upwards."""


def serve(chat: Chat, settings: Settings, *, open_browser: bool = True) -> None:
    """Serve in this thread. Raises RefusedInput when no port is free or the host may not be served (``check_exposure``)."""
    check_exposure(settings)
    with listening_socket(settings.host, settings.port) as listener:
        port = listener.getsockname()[1]
        if port != settings.port:
            _say(f"Port {settings.port} is taken; using {port} instead.")
        address = f"http://{_host_in_address(settings.host)}:{port}/"
        with importing:
            app = create_app(chat, settings)
        server = _Server(app, address, open_browser=open_browser)
        # Ctrl-C is how a server is ended; uvicorn raises it again once it has shut down
        with announced(settings.home, address), suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket bound to ``port`` or the next free one. Raises RefusedInput when there is none or the host is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + TRIES, 65536)):
        # Named as TCP, or asyncio leaves Nagle on and every small answer waits 40 ms for the browser's acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(128)
        except socket.gaierror as error:
            listener.close()
            message = f"{host} is not an address of this machine."
            raise RefusedInput(message) from error
        except OSError:
            listener.close()
        else:
            return listener
    message = f"No port from {port} to {candidate} can be used on {host}. Choose another with --port."
    raise RefusedInput(message)


def _say(line: str) -> None:
    """On the terminal at once, also when it is a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _host_in_address(host: str) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104  (compared, not bound)
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


class _Server(uvicorn.Server):
    """Says where the page is, and opens it, once it answers."""

    def __init__(self, app: FastAPI, address: str, *, open_browser: bool) -> None:
        super().__init__(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        self._address = address
        self._open_browser = open_browser

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _say(f"Fader is at {self._address}")
        if self._open_browser:
            webbrowser.open(self._address)
