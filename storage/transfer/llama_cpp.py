"""What the web page of llama.cpp's server exports: a conversation beside a flat list of messages that name their parents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from app.conversation import Json, Role
from storage.transfer.draft import Draft, Node, Turn, in_line, in_order
from storage.transfer.values import any_moment, need, optional, text_or

NAME = "llama.cpp"


def recognise(item: Json) -> bool:
    """Whether a part of a file is a conversation of this format."""
    if not isinstance(item, dict) or not isinstance(item.get("messages"), list):
        return False
    return isinstance(item.get("conv"), dict) or "lastModified" in item


def read(item: Json) -> Draft:
    """One conversation; raises Unreadable."""
    conversation = need(
        item.get("conv", item), dict, "conv"
    )  # without branches the list once stood in the conversation
    messages = need(item["messages"], list, "messages")
    left_out: Counter[str] = Counter()
    shown: int | None = None
    if any(isinstance(message, dict) and "parent" in message for message in messages):
        turns, places = in_order(_nodes(messages, left_out))
        shown = places.get(str(conversation.get("currNode")))
    else:
        turns = in_line(turn for message in messages if (turn := _turn(message, left_out)))
    return Draft(
        title=text_or(conversation.get("name"), ""),
        turns=turns,
        shown=shown,
        updated_at=any_moment(conversation.get("lastModified")),
        left_out=left_out,
    )


def _nodes(messages: list[Json], left_out: Counter[str]) -> Iterator[Node]:
    for message in messages:
        parent = need(message, dict, "a message").get("parent")
        id_ = message.get("id")
        if not isinstance(id_, str | int):
            need(id_, str, "a message's id")
        yield Node(str(id_), None if parent in {None, ""} else str(parent), _turn(message, left_out))


def _turn(message: Json, left_out: Counter[str]) -> Turn | None:
    role = need(message, dict, "a message").get("role")
    if message.get("extra"):
        left_out["images and files"] += 1
    if message.get("type") == "root":
        return None
    if role not in set(Role):
        left_out[f"{role!s:.20} messages"] += 1
        return None
    content = need(message.get("content"), str, "content")
    if role == Role.SYSTEM and not content.strip():
        return None
    at = any_moment(message.get("timestamp")) or any_moment(
        optional(message.get("id"), int, "id") if "parent" not in message else None
    )
    return Turn(Role(role), content, None, at, text_or(message.get("model"), ""))
