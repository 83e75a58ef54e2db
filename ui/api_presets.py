"""Routes of the presets: list, save, rename, delete, the model's default, and files out and in."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.chat import Chat
from app.conversation import Json
from app.parameters.presets import MAX_FILE_CHARS, export_preset, load_preset_file, shipped
from ui.preset_shelf import Shelf


class Named(BaseModel):
    """A preset to make."""

    name: str = Field(max_length=1_000)
    parameters: dict[str, Json] = {}


class Renamed(BaseModel):
    """A preset and its new name."""

    name: str
    to: str = Field(max_length=1_000)


class Chosen(BaseModel):
    """A preset, or none."""

    name: str | None


class File(BaseModel):
    """The text of a preset file."""

    text: str = Field(max_length=2 * MAX_FILE_CHARS)


def router(chat: Chat) -> APIRouter:
    """Everything under ``/api/presets``; each change answers with the new list."""
    routes = APIRouter(prefix="/api/presets")
    shelf = Shelf(chat)

    @routes.get("")
    def presets() -> Json:
        return _list(shelf)

    @routes.post("")
    def save(body: Named) -> Json:
        return {"name": shelf.save(body.name, body.parameters), **_list(shelf)}

    @routes.post("/rename")
    def rename(body: Renamed) -> Json:
        return {"name": shelf.rename(body.name, body.to), **_list(shelf)}

    @routes.post("/delete")
    def delete(body: Named) -> Json:
        return {"parameters": dict(shelf.delete(body.name)), **_list(shelf)}

    @routes.post("/default")
    def default(body: Chosen) -> Json:
        shelf.make_default(body.name)
        return _list(shelf)

    @routes.post("/export")
    def export(body: Named) -> Json:
        return {"text": export_preset(body.name, body.parameters)}

    @routes.post("/import")
    def read(body: File) -> Json:
        report = load_preset_file(body.text)
        return {"name": report.name, "parameters": report.good, "problems": report.problems}

    return routes


def _list(shelf: Shelf) -> dict[str, Json]:
    known = {preset.name for preset in shipped()}
    rows = [
        {"name": p.name, "description": p.description, "own": p.name not in known, "parameters": dict(p.parameters)}
        for p in shelf.all()
    ]
    return {"presets": rows, "default": shelf.default()}
