"""OpenAI-style JSON Lines: one conversation a line, as ``{"messages": [{"role", "content"}]}``; out and in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from app.conversation import Conversation, Json, Message, Role
from storage.transfer.draft import Draft, Turn, in_line
from storage.transfer.values import need, text_or

NAME = "OpenAI messages"


def write(conversation: Conversation, shown: Sequence[Message]) -> str:
    """One line for the branch on display, without its end."""
    messages = [{"role": message.role.value, "content": message.content} for message in shown]
    if conversation.system_prompt:
        messages.insert(0, {"role": Role.SYSTEM.value, "content": conversation.system_prompt})
    return json.dumps({"messages": messages}, ensure_ascii=False)


def recognise(item: Json) -> bool:
    """Whether a part of a file is a conversation of this format."""
    messages = item.get("messages") if isinstance(item, dict) else None
    return isinstance(messages, list) and (not messages or (isinstance(messages[0], dict) and "role" in messages[0]))


def read(item: Json) -> Draft:
    """One conversation; raises Unreadable."""
    left_out: Counter[str] = Counter()
    turns: list[Turn] = []
    system = ""
    for message in need(item["messages"], list, "messages"):
        role = need(message, dict, "a message").get("role")
        content = message.get("content")
        if isinstance(content, list):
            content = "\n\n".join(
                part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
            )
        if role not in set(Role) or content is None:
            left_out[f"{role!s:.20} messages"] += 1
        elif role == Role.SYSTEM and not turns and not system:
            system = need(content, str, "content")
        else:
            turns.append(Turn(Role(role), need(content, str, "content"), None))
    return Draft(text_or(item.get("title"), ""), in_line(turns), system, left_out=left_out)
