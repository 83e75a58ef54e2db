"""Routes of the sidebar and for opening a conversation; each change has its undo."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.chat import Chat
from app.conversation import Json
from ui.views import conversation_view, hit_view, shown_view

PAGE = 100
"""Conversations per page of the sidebar, and messages per window of the chat."""


class Ids(BaseModel):
    """Conversations to act on."""

    ids: list[str] = Field(min_length=1, max_length=10_000)


class Change(BaseModel):
    """What to change; what is left out stays."""

    title: str | None = Field(default=None, min_length=1, max_length=200)
    pinned: bool | None = None
    system_prompt: str | None = Field(default=None, max_length=1_000_000)


def router(chat: Chat) -> APIRouter:
    """List, open, change, trash, restore, purge."""
    routes = APIRouter(prefix="/api/conversations")

    @routes.get("")
    def conversations(
        q: str = "",
        page: Annotated[int, Query(ge=0)] = 0,
        trashed: bool = False,  # noqa: FBT001, FBT002  (a query flag)
    ) -> Json:
        found = chat.store.conversations(q, trashed=trashed, offset=page * PAGE, limit=PAGE)
        return {"conversations": [hit_view(hit) for hit in found.hits], "more": found.more, "page": page}

    @routes.get("/{conversation_id}")
    def open_conversation(
        conversation_id: str, before: str | None = None, limit: Annotated[int, Query(ge=1, le=PAGE)] = PAGE
    ) -> Json:
        return window(chat, conversation_id, before, limit)

    @routes.post("/trash")
    def trash(body: Ids) -> Json:
        chat.store.trash(body.ids)
        return {"ids": body.ids}

    @routes.post("/restore")
    def restore(body: Ids) -> Json:
        chat.store.restore(body.ids)
        return {"ids": body.ids}

    @routes.post("/purge")
    def purge(body: Ids) -> Json:
        chat.store.purge(body.ids)
        return {"ids": body.ids}

    @routes.post("/{conversation_id}")
    def change(conversation_id: str, body: Change) -> Json:
        changed = chat.store.update_conversation(
            conversation_id, title=body.title, pinned=body.pinned, system_prompt=body.system_prompt
        )
        return conversation_view(changed)

    return routes


def window(chat: Chat, conversation_id: str, before: str | None = None, limit: int = PAGE) -> Json:
    """The last messages of the shown branch, or those just above ``before``; ``earlier`` counts what is above them."""
    conversation = chat.store.conversation(conversation_id)
    branch = chat.store.branch(conversation_id)
    end = next((i for i, shown in enumerate(branch) if shown.message.id == before), len(branch))
    start = max(0, end - limit)
    return {
        "conversation": conversation_view(conversation),
        "messages": [shown_view(shown) for shown in branch[start:end]],
        "earlier": start,
    }
