"""Open WebUI's chat export: rows with a ``chat`` that holds a tree of messages by id (older ones: a plain list)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from app.conversation import Json, Role
from storage.transfer.draft import Draft, Node, Turn, in_line, in_order
from storage.transfer.values import any_moment, need, optional, text_or

NAME = "Open WebUI"


def recognise(item: Json) -> bool:
    """Whether a part of a file is a conversation of this format."""
    chat = item.get("chat") if isinstance(item, dict) else None
    return isinstance(chat, dict) and ("history" in chat or "messages" in chat)


def read(item: Json) -> Draft:
    """One conversation; raises Unreadable."""
    chat = need(item["chat"], dict, "chat")
    left_out: Counter[str] = Counter()
    history = optional(chat.get("history"), dict, "history") or {}
    tree = optional(history.get("messages"), dict, "history.messages") or {}
    shown: int | None = None
    if tree:
        turns, places = in_order(_nodes(tree, left_out))
        current = history.get("currentId")
        shown = places.get(current) if isinstance(current, str) else None
    else:
        flat = optional(chat.get("messages"), list, "messages") or []
        turns = in_line(turn for message in flat if (turn := _turn(message, left_out)))
    return Draft(
        title=text_or(item.get("title"), "") or text_or(chat.get("title"), ""),
        turns=turns,
        system_prompt=text_or(chat.get("system"), ""),
        shown=shown,
        pinned=item.get("pinned") is True,
        created_at=any_moment(item.get("created_at")) or any_moment(chat.get("timestamp")),
        updated_at=any_moment(item.get("updated_at")),
        left_out=left_out,
    )


def _nodes(tree: dict[str, Json], left_out: Counter[str]) -> Iterator[Node]:
    for id_, message in tree.items():
        parent = optional(need(message, dict, f"message {id_}").get("parentId"), str, "parentId")
        yield Node(id_, parent, _turn(message, left_out))


def _turn(message: Json, left_out: Counter[str]) -> Turn | None:
    role = need(message, dict, "a message").get("role")
    if message.get("files"):
        left_out["images and files"] += 1
    if role not in set(Role):
        left_out[f"{role!s:.20} messages"] += 1
        return None
    content = message.get("content")
    if isinstance(content, list):
        content = "\n\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return Turn(
        Role(role),
        need(content, str, "content"),
        None,
        any_moment(message.get("timestamp")),
        text_or(message.get("model"), ""),
    )
