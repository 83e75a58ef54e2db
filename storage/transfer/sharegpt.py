"""ShareGPT data sets: ``conversations`` as a list of ``{"from", "value"}``."""

from __future__ import annotations

from collections import Counter

from app.conversation import Json, Role
from storage.transfer.draft import Draft, Turn, in_line
from storage.transfer.values import need, text_or

NAME = "ShareGPT"
_ROLES = {
    "human": Role.USER,
    "user": Role.USER,
    "gpt": Role.ASSISTANT,
    "assistant": Role.ASSISTANT,
    "chatgpt": Role.ASSISTANT,
    "bing": Role.ASSISTANT,
    "bard": Role.ASSISTANT,
    "system": Role.SYSTEM,
}


def recognise(item: Json) -> bool:
    """Whether a part of a file is a conversation of this format."""
    turns = item.get("conversations") if isinstance(item, dict) else None
    return isinstance(turns, list) and (not turns or (isinstance(turns[0], dict) and "from" in turns[0]))


def read(item: Json) -> Draft:
    """One conversation; raises Unreadable."""
    left_out: Counter[str] = Counter()
    turns: list[Turn] = []
    system = text_or(item.get("system"), "")
    for entry in need(item["conversations"], list, "conversations"):
        sender = str(need(entry, dict, "a turn").get("from")).lower()
        value = need(entry.get("value"), str, "value")
        role = _ROLES.get(sender)
        if role is None:
            left_out[f"{sender:.20} messages"] += 1
        elif role is Role.SYSTEM and not turns and not system:
            system = value
        else:
            turns.append(Turn(role, value, None))
    return Draft(text_or(item.get("title"), ""), in_line(turns), system, left_out=left_out)
