"""Routes for moving about in a conversation's tree: show a sibling, branch off, delete and undo."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from app.chat import Chat
from app.conversation import Json
from ui.api_conversations import window
from ui.views import conversation_view


class Trash(BaseModel):
    """``subtree``: with everything below it, or the one message alone."""

    subtree: bool = False


def router(chat: Chat) -> APIRouter:
    """Every answer but a branch's is the conversation as it is then shown."""
    routes = APIRouter(prefix="/api/messages")

    @routes.post("/{message_id}/show")
    def show(message_id: str) -> Json:
        message = chat.store.message(message_id)
        leaf = chat.store.leaf_under(message_id)
        chat.store.update_conversation(message.conversation_id, shown_leaf=leaf)
        return window(chat, message.conversation_id)

    @routes.post("/{message_id}/branch")
    def branch(message_id: str) -> Json:
        return conversation_view(chat.branch(message_id))

    @routes.post("/{message_id}/trash")
    def trash(message_id: str, body: Trash) -> Json:
        message = chat.store.message(message_id)
        chat.store.trash_message(message_id, subtree=body.subtree)
        return window(chat, message.conversation_id)

    @routes.post("/{message_id}/restore")
    def restore(message_id: str) -> Json:
        message = chat.store.message(message_id)
        chat.store.restore_message(message_id)
        return window(chat, message.conversation_id)

    return routes
