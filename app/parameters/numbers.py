"""Exact conversions to numbers and switches: what means the same is converted, everything else is refused."""

from __future__ import annotations

import math

from app.conversation import Json

_WORDS = {"true": True, "false": False}


def to_bool(value: Json) -> bool:
    """True or false, also as those words. Numbers are refused: 1 is not a switch. Raises ValueError."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    raise ValueError(f"{shown(value)} is not true or false")


def to_int(value: Json) -> int:
    """A whole number: 40, 40.0 and "40" are; 40.5, true, NaN and infinities are not. Raises ValueError."""
    number = _parsed(value)
    if isinstance(number, float):
        if not number.is_integer():
            raise ValueError(f"{shown(value)} is not a whole number")
        return int(number)
    return number


def to_float(value: Json) -> float:
    """A finite number: 1 becomes 1.0, "0.7" becomes 0.7; an integer too large to be exact is refused. Raises ValueError."""
    number = _parsed(value)
    if isinstance(number, int) and abs(number) > 2**53:
        raise ValueError(f"{shown(value)} is too large")
    return float(number)


def _parsed(value: Json) -> int | float:
    number = _from_text(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{shown(value)} is not a number")  # noqa: TRY004  (callers name the parameter for one kind of error)
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"{shown(value)} is not a finite number")
    return number


def _from_text(text: str) -> int | float | None:
    """The number that a text spells in ordinary decimal digits, else None."""
    word = text.strip()
    if not word.isascii() or "_" in word:
        return None
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    return None


def shown(value: Json) -> str:
    """A value for a message, cut to a readable length."""
    text = (
        {None: "null", True: "true", False: "false"}[value]
        if value is None or isinstance(value, bool)
        else _plain(value)
    )
    return text if len(text) <= 60 else f"{text[:57]}…"


def _plain(value: Json) -> str:
    try:
        return repr(value) if not isinstance(value, str) else f"“{value}”"
    except ValueError:  # an integer of more digits than Python is willing to print
        return "a huge number"
