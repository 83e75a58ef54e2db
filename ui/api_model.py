"""Routes on the model: what state it is in, for the line that is always visible."""

from __future__ import annotations

from fastapi import APIRouter

from app.chat import Chat
from app.conversation import Json


def router(chat: Chat) -> APIRouter:
    """``GET /api/model``, ``POST /api/model/unload``; loading is asked for on the page's model panel."""
    routes = APIRouter(prefix="/api/model")

    @routes.get("")
    def model() -> Json:
        return model_view(chat)

    @routes.post("/unload")
    def unload() -> Json:
        """Free the model after what is queued; answers when it is done."""
        chat.engine.unload().finished.wait()
        return model_view(chat)

    return routes


def model_view(chat: Chat) -> Json:
    """The model's state in words, with progress while loading and what is known of it once it is ready."""
    status = chat.engine.status()
    facts = status.facts
    return {
        "state": status.state,
        "name": status.name,
        "label": facts.label if facts else None,
        "quantization": facts.quantization if facts else None,
        "device": facts.device if facts else None,
        "context_length": facts.context_length if facts else None,
        "detail": status.detail,
        "done": status.done,
        "total": status.total,
        "queue": len(chat.engine.queue()),
    }
