"""ChatGPT's ``conversations.json``: a tree of nodes by id, of which system, tool and hidden ones are passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from app.conversation import Json, Role
from storage.transfer.draft import Draft, Node, Turn, in_order
from storage.transfer.values import any_moment, need, optional, text_or

NAME = "ChatGPT"
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def recognise(item: Json) -> bool:
    """Whether a part of a file is a conversation of this format."""
    return isinstance(item, dict) and isinstance(item.get("mapping"), dict)


def read(item: Json) -> Draft:
    """One conversation; raises Unreadable."""
    left_out: Counter[str] = Counter()
    mapping = need(item["mapping"], dict, "mapping")
    turns, places = in_order(_nodes(mapping, left_out))
    current = item.get("current_node")
    return Draft(
        title=text_or(item.get("title"), ""),
        turns=turns,
        shown=places.get(current) if isinstance(current, str) else None,
        created_at=any_moment(item.get("create_time")),
        updated_at=any_moment(item.get("update_time")),
        left_out=left_out,
    )


def _nodes(mapping: dict[str, Json], left_out: Counter[str]) -> Iterator[Node]:
    for id_, node in mapping.items():
        need(node, dict, f"node {id_}")
        yield Node(id_, optional(node.get("parent"), str, "parent"), _turn(node.get("message"), left_out))


def _turn(message: Json, left_out: Counter[str]) -> Turn | None:
    if message is None:
        return None
    author = need(need(message, dict, "message").get("author"), dict, "author")
    metadata = optional(message.get("metadata"), dict, "metadata") or {}
    role = _ROLES.get(str(author.get("role")))
    text = "\n\n".join(_parts(optional(message.get("content"), dict, "content") or {}, left_out))
    if role is None or metadata.get("is_visually_hidden_from_conversation") or not text.strip():
        if text.strip() and author.get("role") == "tool":
            left_out["tool messages"] += 1
        return None
    return Turn(
        role, text, None, any_moment(message.get("create_time")), text_or(metadata.get("model_slug"), "") or None
    )


def _parts(content: dict[str, Json], left_out: Counter[str]) -> Iterator[str]:
    kind = content.get("content_type")
    if kind == "code":
        language = text_or(content.get("language"), "").replace("unknown", "")
        yield f"```{language}\n{text_or(content.get('text'), '')}\n```"
    elif kind in {"user_editable_context", "model_editable_context"}:
        left_out["custom instructions"] += 1
    else:
        parts: Iterable[Json] = optional(content.get("parts"), list, "parts") or [content.get("text")]
        for part in parts:
            if isinstance(part, str):
                yield part
            elif isinstance(part, dict):
                text = part.get("text")
                if isinstance(text, str):
                    yield text
                else:
                    left_out["images and files"] += 1
