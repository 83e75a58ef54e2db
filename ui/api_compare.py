"""Routes of the comparison: start a grid of siblings of a reply, follow all its cells with one request, check them against single runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.chat import Chat, Compared
from app.conversation import Json
from app.insight.compare import MODEL, MOST
from app.models.catalogue import list_models
from ui.api_insight import desk_for
from ui.compare_views import Checks, cell_view


class Sweeps(BaseModel):
    """What varies and the values it takes: parameters by their names, ``preset`` and ``model``; every combination is a cell."""

    sweeps: dict[str, list[Json]]


class Seen(BaseModel):
    """A cell, and the number of the last event of its run that the page has."""

    run: str
    after: Annotated[int, Field(ge=0)] = 0


class Cells(BaseModel):
    """The cells that are followed; ``check``: the check of them that goes on, if one does."""

    cells: Annotated[list[Seen], Field(max_length=MOST)]
    check: str | None = None


class Finished(BaseModel):
    """Runs to be held against single ones."""

    runs: Annotated[list[str], Field(min_length=1, max_length=MOST)]


def router(chat: Chat) -> APIRouter:
    """``POST /api/messages/{id}/compare`` and everything below ``/api/compare``."""
    routes = APIRouter(prefix="/api")
    checks = Checks()

    @routes.post("/messages/{message_id}/compare")
    def start(message_id: str, body: Sweeps) -> Json:
        run = chat.store.message(message_id).run
        if run is not None and run.prompt_ids and MODEL not in body.sweeps:
            desk_for(chat, run)  # its tokens mean something to this model only
        return {"cells": [_started(compared) for compared in chat.compare(message_id, body.sweeps)]}

    @routes.post("/compare/follow")
    def follow(body: Cells) -> Json:
        check = checks.get(body.check)
        return [cell_view(chat, seen.run, seen.after, check) for seen in body.cells]

    @routes.get("/compare/models")
    def models() -> Json:
        """Names that can be varied over, the loaded model's first."""
        status = chat.engine.status()
        loaded = {status.name: status.facts.label if status.facts else status.name} if status.name else {}
        found = loaded | {entry.name: entry.label for entry in list_models(chat.settings)}
        return {"loaded": status.name, "models": [{"name": name, "label": label} for name, label in found.items()]}

    @routes.post("/compare/check")
    def check(body: Finished) -> Json:
        return {"check": checks.add(chat.check_alone(body.runs))}

    @routes.post("/compare/check/{check_id}/stop")
    def stop(check_id: str) -> Json:
        return {"stopped": checks.stop(check_id)}

    return routes


def _started(compared: Compared) -> Json:
    started = compared.started
    changes = dict(compared.cell.changes)
    return {"changes": changes, "message": started.reply.id, "run": started.run.id, "apart": compared.apart}
