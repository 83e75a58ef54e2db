"""How lists of texts, tokens and biases are written in a text field, one entry a line; reading gives back exactly what was written.

A line is a text as it stands, in double quotes where its spaces or line breaks matter, or token ids: ``42`` where tokens are meant,
``[12, 7]`` where phrases are. A row of sequence_bias is such an entry, " = " and the bias.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from app.conversation import Json
from app.parameters.row import Kind

TOKENS: tuple[Kind, ...] = ("token", "tokens")
"""Kinds for which a bare number is an id."""


def read_entries(text: str | None, kind: Kind) -> list[Json]:
    """The entries of a field; blank lines count for nothing."""
    return [read_entry(line, kind) for line in (text or "").split("\n") if line.strip()]


def write_entries(items: Sequence[Json], kind: Kind) -> str:
    """The lines that ``read_entries`` reads as these entries."""
    return "\n".join(write_entry(item, kind) for item in items)


def read_entry(line: str, kind: Kind) -> Json:
    """One line: a text, an id or a list of ids."""
    word = line.strip()
    if kind in TOKENS and word.isdecimal():
        return int(word)
    if word[:1] in ('"', "["):
        value = _json(word)
        if isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, int) for item in value)):
            return value
    return line


def write_entry(item: Json, kind: Kind) -> str:
    """The line for one entry."""
    if not isinstance(item, str):
        return json.dumps(item)
    plain = item.strip() == item and "\n" not in item and item[:1] not in ("", '"', "[")
    return item if plain and not (kind in TOKENS and item.isdecimal()) else json.dumps(item, ensure_ascii=False)


def read_rows(text: str | None) -> list[list[Json]]:
    """Rows [text or ids, bias]; a bias that is no number stays text, for the check to refuse."""
    return [_row(line) for line in (text or "").split("\n") if line.strip()]


def _row(line: str) -> list[Json]:
    phrase, equals, bias = line.rpartition("=")
    if not equals:
        return [read_entry(line, "phrases"), ""]
    phrase = phrase.removesuffix(" ")
    number = _json(bias.strip())
    return [read_entry(phrase, "phrases") if phrase.strip() else "", number if number is not None else bias.strip()]


def write_rows(rows: Sequence[Sequence[Json]]) -> str:
    """The lines that ``read_rows`` reads as these rows."""
    return "\n".join(f"{write_entry(phrase, 'phrases')} = {bias:g}" for phrase, bias in rows)


def write_json(value: Json, indent: int | None = None) -> str:
    """A JSON value as it may be typed; a text is one that was typed and is no JSON yet, and stays as it is."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


def _json(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return None
