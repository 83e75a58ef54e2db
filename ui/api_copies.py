"""Routes on the prepared copies: what takes space in the cache folder, and taking one away."""

from __future__ import annotations

from fastapi import APIRouter

from app.chat import Chat
from app.conversation import Json
from app.models import copies, prepared


def router(chat: Chat) -> APIRouter:
    """``GET /api/copies``, ``POST /api/copies/{name}/remove``; a user's own folders are never among them."""
    routes = APIRouter(prefix="/api/copies")
    cache = chat.settings.cache

    @routes.get("")
    def every() -> Json:
        return _view(chat)

    @routes.post("/{name}/remove")
    def remove(name: str) -> Json:
        gone = copies.remove(cache, name)
        return {"freed": gone.nbytes, **_view(chat)}

    return routes


def _view(chat: Chat) -> dict[str, Json]:
    """The copies, and the folder they lie in. ``in_use``: the model in memory was loaded from it."""
    found = copies.every(chat.settings.cache)
    rows = [{**copy.as_json(), "in_use": _in_use(chat, copy)} for copy in found]
    return {"copies": rows, "folder": str(prepared.root(chat.settings.cache))}


def _in_use(chat: Chat, copy: copies.Copy) -> bool:
    loaded = chat.engine.loaded
    if loaded is None:
        return False
    weights = loaded.facts.fingerprint.get("source", {}).get("weights_sha256")
    return weights is not None and weights == copy.weights
