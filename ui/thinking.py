"""Splits a finished reply into what the model thought and what it answered, by the marks that models write."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["answer", "thinking"]

_MARKS = re.compile(r"<(?P<closing>/?)(?:think|thinking|reasoning|thought)>\n*")


def split_thinking(text: str) -> list[tuple[Kind, str]]:
    """The parts in order, empty ones left out. A closing mark without an opening one ends thinking that began the reply
    (the prompt had opened it); an opening one without an end is thinking to the end."""
    parts: list[tuple[Kind, str]] = []
    kind: Kind = "answer"
    position = 0
    for mark in _MARKS.finditer(text):
        closing = bool(mark["closing"])
        if closing and kind == "answer" and any(found == "thinking" for found, _ in parts):
            continue
        if not closing and kind == "thinking":
            continue
        _add(parts, "thinking" if closing else kind, text[position : mark.start()])
        kind = "answer" if closing else "thinking"
        position = mark.end()
    _add(parts, kind, text[position:])
    return parts


def _add(parts: list[tuple[Kind, str]], kind: Kind, text: str) -> None:
    if text.strip():
        parts.append((kind, text))
