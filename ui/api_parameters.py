"""Routes of the parameters panel: what the table says, how texts are tokenized, and the presets."""

from __future__ import annotations

from functools import lru_cache

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.chat import Chat
from app.conversation import Json
from app.parameters.row import Parameter
from app.parameters.table import describe, get
from ui.parameter_order import group_of
from ui.parameter_tokens import forms


class Typed(BaseModel):
    """What stands in a field."""

    name: str
    text: str = Field(max_length=20_000)


def router(chat: Chat) -> APIRouter:
    """``GET /api/parameters`` and ``POST /api/parameters/tokens``."""
    routes = APIRouter(prefix="/api/parameters")

    @routes.get("")
    def table() -> Json:
        return catalogue()

    @routes.post("/tokens")
    def tokenized(typed: Typed) -> Json:
        row, desk = get(typed.name), chat.engine.desk
        return {"entries": [] if desk is None else forms(desk, row, typed.text), "model": desk is not None}

    return routes


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Json]:
    """The table for assets/parameters: what ``fader params --json`` says, and what only a page needs."""
    return {row["name"]: {**row, **_more(get(row["name"]))} for row in describe()}


def _more(row: Parameter) -> dict[str, Json]:
    return {
        "group_heading": group_of(row).heading,
        "group_id": group_of(row).name.lower(),
        "control": row.control,
        "kind": row.kind,
        "paper": row.paper,
        "range": row.range_text(),
        "conflicts_with": list(row.conflicts_with),
        "streams": row.streams,
        "log_low": row.log_low,
        "slider_high": row.slider_high,
    }
