"""text-generation-webui's chat logs: ``internal`` is a list of pairs, what the user said and what the model replied."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from app.conversation import Json, Role
from storage.transfer.draft import Draft, Turn, in_line
from storage.transfer.values import Unreadable, need, optional, text_or

NAME = "text-generation-webui"
_GREETING = "<|BEGIN-VISIBLE-CHAT|>"
"""Stands for the user in the first pair when the character speaks first."""


def recognise(item: Json) -> bool:
    """Whether a part of a file is a conversation of this format."""
    return isinstance(item, dict) and isinstance(item.get("internal") or item.get("data"), list)


def read(item: Json) -> Draft:
    """One conversation; raises Unreadable."""
    pairs = item["internal"] if item.get("internal") is not None else item["data"]
    metadata = optional(item.get("metadata"), dict, "metadata") or {}
    return Draft("", in_line(_turns(need(pairs, list, "internal"), metadata)))


def _turns(pairs: list[Json], metadata: dict[str, Json]) -> Iterator[Turn]:
    for index, pair in enumerate(pairs):
        said = need(pair, list, f"pair {index}")
        if len(said) != len(_SPEAKERS):
            raise Unreadable(f"pair {index} has {len(said)} parts")
        for (name, role), text in zip(_SPEAKERS, said, strict=True):
            need(text, str, f"pair {index}")
            about = metadata.get(f"{name}_{index}")
            about = about if isinstance(about, dict) else {}
            if text and text != _GREETING:
                yield Turn(role, text, None, _time(about.get("timestamp")), text_or(about.get("model_name"), ""))


_SPEAKERS = (("user", Role.USER), ("assistant", Role.ASSISTANT))


def _time(written: Json) -> datetime | None:
    """The program's own notation, in local time, such as ``Jan 31, 2026 14:05``."""
    try:
        return datetime.strptime(written, "%b %d, %Y %H:%M").astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
