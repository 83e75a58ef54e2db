"""Keeps other web sites and other people out: which hosts may be asked for, what the page may load, and the password.

A page of another site can send a browser's requests here, so every change needs a header that such a page can't set. A name that
another site points at this machine is refused by its Host header. Everything but the log-in needs the session when a password is set.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, MutableMapping
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import RefusedInput
from app.settings import Settings
from ui.login_page import login_page

HEADER = "x-fader"
COOKIE = "fader-session"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
_OPEN = frozenset({"/login", "/healthz"})


def check_exposure(settings: Settings) -> None:
    """Refuse to serve other machines without a password; raises RefusedInput."""
    if settings.host not in LOOPBACK and settings.password is None:
        message = (
            f"Serving on {settings.host} lets other machines read and write your chats. Set a password first: "
            "FADER_PASSWORD=… (or serve on 127.0.0.1)."
        )
        raise RefusedInput(message)


def allowed_hosts(settings: Settings) -> frozenset[str] | None:
    """Host names to answer to; None for any, which a wildcard address with a password needs."""
    if settings.host in {"0.0.0.0", "::"}:  # noqa: S104  (compared, not bound)
        return None
    return LOOPBACK | {settings.host.lower()}


class Guard:
    """ASGI middleware in front of everything, mounted apps and their streams too."""

    def __init__(self, app: ASGIApp, settings: Settings, token: str, free: frozenset[str]) -> None:
        self._app = app
        self._hosts = allowed_hosts(settings)
        self._token = token if settings.password else None
        self._free = free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or pass the request on; either way with the page's policy in the headers."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        if scope["type"] != "http":
            return _refuse("Only http is spoken here.", HTTPStatus.BAD_REQUEST)
        request = Request(scope)
        refusal = _foreign(request, self._hosts)
        if refusal is None and self._token is not None and request.url.path not in self._free:
            refusal = _stranger(request, self._token)
        return refusal


def install(app: FastAPI, settings: Settings, assets: Iterable[str] = ()) -> None:
    """Guard every route of ``app``. ``assets``: paths that the log-in page needs. Raises RefusedInput (``check_exposure``)."""
    check_exposure(settings)
    token = secrets.token_urlsafe(32)
    app.add_middleware(Guard, settings=settings, token=token, free=_OPEN | frozenset(assets))
    if settings.password is not None:
        _add_login(app, settings.password.get_secret_value(), token)


def _add_login(app: FastAPI, password: str, token: str) -> None:
    @app.get("/login")
    def ask() -> HTMLResponse:
        return HTMLResponse(login_page())

    @app.post("/login")
    def check(word: Annotated[str, Form(alias="password", max_length=1_000)]) -> Response:
        if not secrets.compare_digest(word.encode(), password.encode()):
            return HTMLResponse(login_page("That is not the password."), HTTPStatus.FORBIDDEN)
        response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response


def _foreign(request: Request, hosts: frozenset[str] | None) -> Response | None:
    host = _name(request.headers.get("host", ""))
    if hosts is not None and host not in hosts:
        return _refuse(
            f"This Fader does not answer to the name {host or 'without one'!r}.", HTTPStatus.MISDIRECTED_REQUEST
        )
    if request.method in {"GET", "HEAD"}:
        return None
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        return _refuse("Requests from other sites are refused.", HTTPStatus.FORBIDDEN)
    if request.url.path.startswith("/api/") and HEADER not in request.headers:
        return _refuse(f"Changes need the header {HEADER}: 1, which other sites can't send.", HTTPStatus.FORBIDDEN)
    return None


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _stranger(request: Request, token: str) -> Response | None:
    if secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), token.encode()):
        return None
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    return _refuse("Log in first.", HTTPStatus.UNAUTHORIZED)


def _refuse(message: str, status: HTTPStatus) -> Response:
    return JSONResponse({"error": message}, status)
