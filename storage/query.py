"""What a user typed into the search box, understood.

Words all have to occur, the last one being typed also as a beginning. Filters (``model:``, ``after:``, ``before:``, ``has:``,
``role:``, ``param:``) narrow the messages. Anything that isn't a well-formed filter is text, whatever punctuation it has.
"""

from __future__ import annotations

import json
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from app.conversation import Json
from storage.index import normal
from storage.keys import key_at
from storage.rows import stamp

_FOREVER = 2**62

_FLAGS = MappingProxyType(
    {f"has:{name}": f"has{name}" for name in ("error", "code", "stopped", "interrupted")}
    | {f"role:{name}": f"role{name}" for name in ("user", "assistant", "system")}
)
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq}
)
_PARAMETER = re.compile(r"param:(\w+)(>=|<=|>|<|=)(.+)", re.IGNORECASE)
_DAY = re.compile(r"(after|before):(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Condition:
    """``param:temperature>1``: a comparison with a parameter's effective value."""

    name: str
    sign: str
    value: Json

    def holds(self, effective: Mapping[str, Json]) -> bool:
        """Whether a run's effective parameters fulfil it; values that can't be compared don't."""
        try:
            return self.name in effective and bool(_OPERATORS[self.sign](effective[self.name], self.value))
        except TypeError:
            return False


@dataclass(frozen=True, slots=True)
class Query:
    """A query understood. ``words`` as typed (normalized), without filters; ``after`` inclusive, ``before`` exclusive."""

    words: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    after: datetime | None = None
    before: datetime | None = None

    @property
    def matches_messages(self) -> bool:
        """Whether answering takes the index; a query of dates only, or of nothing, narrows the plain list."""
        return bool(self.words or self.models or self.flags or self.conditions)

    @property
    def after_stamp(self) -> int:
        """``after`` as a stored time, or a time before all."""
        return -_FOREVER if self.after is None else stamp(self.after)

    @property
    def before_stamp(self) -> int:
        """``before`` as a stored time, or a time after all."""
        return _FOREVER if self.before is None else stamp(self.before)

    @property
    def keys(self) -> tuple[int, int]:
        """The range of message keys, first and last, that the dates allow."""
        first = 0 if self.after is None else key_at(self.after)
        return first, _FOREVER if self.before is None else key_at(self.before) - 1

    def names(self, fingerprint: Mapping[str, Json]) -> bool:
        """Whether a run's model has all that was typed after ``model:`` in its name."""
        name = normal(str(fingerprint.get("name") or "")).casefold()
        return all(typed.casefold() in name for typed in self.models)

    def holds(self, effective: Mapping[str, Json]) -> bool:
        """Whether a run's effective parameters fulfil all conditions."""
        return all(condition.holds(effective) for condition in self.conditions)


def parse(typed: str) -> Query:
    """Understand what was typed; never fails."""
    found: dict[str, Any] = {"words": (), "models": (), "flags": (), "conditions": ()}
    for part in normal(typed).replace("\x00", " ").split():
        name, value = _understand(part)
        found[name] = found[name] + (value,) if isinstance(found.get(name), tuple) else value
    return Query(**found)


def _understand(part: str) -> tuple[str, Any]:
    """The field of Query that a part of the query sets, and the value."""
    folded = part.lower()
    if folded in _FLAGS:
        return "flags", _FLAGS[folded]
    if folded.startswith("model:") and known(part[6:]):
        return "models", part[6:]
    if match := _PARAMETER.fullmatch(part):
        return "conditions", Condition(match[1], match[2], _value(match[3]))
    if (match := _DAY.fullmatch(part)) and (day := _midnight(match[2], match[3], match[4])):
        return match[1].lower(), day
    return "words", part


def _value(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _midnight(year: str, month: str | None, day: str | None) -> datetime | None:
    """The start of a day, month or year where the user is; None for a day that no calendar has."""
    try:
        return datetime(int(year), int(month or 1), int(day or 1)).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def known(text: str) -> bool:
    """Whether the index knows any character of a text; the rest is punctuation."""
    return any(unicodedata.category(char)[0] in "LN" or unicodedata.category(char) in {"Co", "So"} for char in text)
