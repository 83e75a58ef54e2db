"""Reading foreign JSON without trusting it: every access says what it wants and fails with a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar

from app.conversation import Json

T = TypeVar("T")

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
_MILLISECONDS_FROM = 1e11
"""Numbers above are milliseconds: as seconds they would be in the year 5138."""


class Unreadable(Exception):
    """A conversation isn't as its format demands; the sentence says where."""


def need(value: Json, kind: type[T], what: str) -> T:
    """The value, which must be of that type; raises Unreadable."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Unreadable(f"{what} is {_name(value)} instead of {_KINDS.get(kind, kind.__name__)}")
    return value


_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    bool: "true or false",
}


def _name(value: Json) -> str:
    return "missing" if value is None else _KINDS.get(type(value), "a number")


def optional(value: Json, kind: type[T], what: str) -> T | None:
    """Like ``need``, but None may stand for nothing."""
    return None if value is None else need(value, kind, what)


def text_or(value: Json, default: str) -> str:
    """The value if it is text with something in it, else the default."""
    return value if isinstance(value, str) and value.strip() else default


def moment(value: Json, what: str) -> datetime:
    """A time as Fader writes it (ISO 8601 with its zone), in UTC; raises Unreadable."""
    try:
        read = datetime.fromisoformat(need(value, str, what)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Unreadable(f"{what} is no time: {value!r:.60}") from error
    if not _EARLIEST <= read <= _LATEST:
        raise Unreadable(f"{what} is out of range: {value!r:.60}")
    return read


def any_moment(value: Json) -> datetime | None:
    """A time as other programs write it (seconds or milliseconds since 1970, or ISO 8601); None when it makes no sense."""
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value)
            read = read.replace(tzinfo=read.tzinfo or UTC).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            read = datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS_FROM else value, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return read if _EARLIEST < read < _LATEST else None
