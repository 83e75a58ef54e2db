"""Routes of the comparison: start a grid of siblings of a reply, and follow all its cells with one request."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from app.chat import Chat
from app.conversation import Json, Run
from app.errors import RefusedInput
from app.insight.compare import MOST, grid
from app.insight.recorded import Recordings
from ui.api_insight import desk_for
from ui.views import run_view


class Sweeps(BaseModel):
    """Parameters and the values each of them takes; every combination is a cell."""

    sweeps: dict[str, list[Json]]


def router(chat: Chat) -> APIRouter:
    """``POST /api/messages/{id}/compare`` and ``GET /api/compare?run=…&run=…``."""
    routes = APIRouter(prefix="/api")
    recordings = Recordings(chat.store)

    @routes.post("/messages/{message_id}/compare")
    def start(message_id: str, body: Sweeps) -> Json:
        run = chat.store.message(message_id).run
        if run is None:
            raise RefusedInput("This reply was not written by a model here.")
        desk_for(chat, run)
        recorded = recordings.of(run.id)
        cells = grid(recorded, body.sweeps, chat.engine.status().facts)
        shown = []
        for cell in cells:
            started = chat.branch_token(message_id, recorded.taken_over, "", requested=cell.requested)
            shown.append({"changes": dict(cell.changes), "message": started.reply.id, "run": started.run.id})
        return {"cells": shown}

    @routes.get("/compare")
    def follow(run: Annotated[list[str], Query(max_length=MOST)]) -> Json:
        return [_cell(chat, run_id) for run_id in run]

    return routes


def _cell(chat: Chat, run_id: str) -> Json:
    live = chat.live(run_id)
    if live is not None and live.ended is None:
        return {"run": run_id, "done": False, "status": str(live.status), "text": live.text()}
    ended = live.ended if live is not None else None
    stored: Run = ended.run if ended else chat.store.run(run_id)
    text = ended.text if ended else chat.store.message(stored.message_id).content
    return {**run_view(stored), "run": run_id, "done": True, "text": text, "ids": list(stored.output_ids)}
