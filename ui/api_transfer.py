"""Routes for taking conversations out and bringing them in; a file that comes in replaces nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from app.chat import Chat
from app.conversation import Json, now
from app.errors import RefusedInput
from app.transfer import ExportFormat, Transfer

LARGEST = 2_000_000_000
"""Bytes of a file that may be brought in."""

_TYPES = {
    ExportFormat.FADER_JSON: "application/json",
    ExportFormat.MARKDOWN: "text/markdown; charset=utf-8",
    ExportFormat.HTML: "text/html; charset=utf-8",
    ExportFormat.OPENAI_JSONL: "application/jsonl",
}


def router(chat: Chat) -> APIRouter:
    """``GET /api/export?format=&id=…`` and ``POST /api/import`` with the file as body."""
    routes = APIRouter(prefix="/api")
    transfer = cast("Transfer", chat.store)

    @routes.get("/export")
    def export(
        form: Annotated[ExportFormat, Query(alias="format")], ids: Annotated[list[str] | None, Query(alias="id")] = None
    ) -> StreamingResponse:
        name = _name(chat, ids, form)
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}", "Cache-Control": "no-store"}
        pieces = iter(transfer.export(form, ids))
        first = next(pieces, "")  # an unknown id is refused before the answer has begun
        return StreamingResponse(_all(first, pieces), media_type=_TYPES[form], headers=headers)

    @routes.post("/import")
    async def bring_in(request: Request, x_file_name: Annotated[str, Header(max_length=500)] = "import.json") -> Json:
        with tempfile.TemporaryDirectory(prefix="fader-import-") as folder:
            file = Path(folder) / f"import{Path(x_file_name).suffix[:10]}"
            await _receive(request, file)
            report = await run_in_threadpool(transfer.import_file, file)
        return {**report.as_json(), "sentence": str(report)}

    return routes


def _all(first: str, rest: Iterator[str]) -> Iterator[bytes]:
    yield first.encode()
    for piece in rest:
        yield piece.encode()


def _name(chat: Chat, ids: list[str] | None, form: ExportFormat) -> str:
    title = chat.store.conversation(ids[0]).title if ids and len(ids) == 1 else ""
    plain = "".join(c if c.isalnum() or c in " -_.,()" else " " for c in title).strip()[:80]
    return f"{plain or 'Fader'} {now():%Y-%m-%d}.{form.value}"


async def _receive(request: Request, file: Path) -> None:
    size = 0
    with file.open("wb") as out:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST:
                raise RefusedInput(f"The file is larger than {LARGEST / 1e9:.0f} GB.")
            out.write(chunk)
    if not size:
        raise RefusedInput("The file is empty.")
