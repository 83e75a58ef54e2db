"""Errors of Fader's as HTTP answers: a fitting status and ``{"error": sentence}``, which the page shows next to the cause."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from app.errors import FaderError, ModelError, NotFound, RefusedInput, StoreBusy, StoreError, StoreFull

log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (RefusedInput, HTTPStatus.BAD_REQUEST),
    (StoreFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (StoreBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (ModelError, HTTPStatus.CONFLICT),
)
UNEXPECTED = "Something unexpected went wrong. Nothing you typed is lost; the details are in Fader's terminal window."


def status_of(error: Exception) -> HTTPStatus:
    """The HTTP status that says best what kind of error this is."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def sentence(error: Exception) -> str:
    """What to tell the user. Errors that aren't Fader's own are logged, since their text helps only a developer."""
    if isinstance(error, FaderError):
        return str(error)
    log.error("unexpected error", exc_info=error)
    return UNEXPECTED


def install(app: FastAPI) -> None:
    """Answer every error in Fader's own routes as JSON."""

    @app.exception_handler(FaderError)
    def fader_error(_request: Request, error: FaderError) -> JSONResponse:
        return JSONResponse({"error": sentence(error)}, status_of(error))

    @app.exception_handler(RequestValidationError)
    def bad_request(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse({"error": f"{where}: {first['msg']}"}, HTTPStatus.BAD_REQUEST)
