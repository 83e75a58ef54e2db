"""Values as they arrive, from the page, the command line, HTTP or a preset, checked and converted exactly, or refused by name.

Converted: 1 for a number with decimals, 40.0 or "40" for a whole number, "true" for a switch, one text for a list of texts.
Refused: what would lose or guess something (40.5 for a whole number, true or 1 for the other kind, NaN, 1e999, null where no "off"
is null), unknown names, and numbers out of the table's range. What only this model can't do is left to resolve, which explains it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from app.conversation import Json
from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters import shapes
from app.parameters.numbers import shown, to_bool, to_float, to_int
from app.parameters.row import Kind, Parameter
from app.parameters.table import get

_READERS: Mapping[Kind, Callable[[Json], Json]] = {
    "int": to_int,
    "float": to_float,
    "bool": to_bool,
    "text": shapes.to_text,
    "texts": shapes.to_texts,
    "token": shapes.to_token,
    "tokens": shapes.to_tokens,
    "phrases": shapes.to_phrases,
    "rows": shapes.to_rows,
    "pair": shapes.to_pair,
    "json": shapes.to_object,
    "watermark": shapes.to_watermark,
    "compile": shapes.to_compile,
    "format": shapes.to_format,
}


def validate(requested: Mapping[str, Json], facts: ModelFacts | None = None) -> dict[str, Json]:
    """The values converted to the table's types, in the given order.

    With ``facts``, token ids must be in the model's vocabulary. Raises BadParameter naming the first bad parameter and its range.
    """
    return {name: check(name, value, facts) for name, value in requested.items()}


def check(name: str, value: Json, facts: ModelFacts | None = None) -> Json:
    """One value, converted. Raises BadParameter."""
    row = get(name)
    try:
        converted = _convert(row, value)
        _in_vocabulary(converted, row, facts)
    except (ValueError, OverflowError) as error:
        raise BadParameter(name, f"{error}; it takes {row.range_text(facts)}{_or_null(row)}") from None
    return converted


def problems(requested: Mapping[str, Json], facts: ModelFacts | None = None) -> dict[str, str]:
    """The reason for each value that ``validate`` would refuse, by name."""
    found: dict[str, str] = {}
    for name, value in requested.items():
        try:
            check(name, value, facts)
        except BadParameter as error:
            found[name] = error.why
    return found


def parse_assignment(text: str) -> tuple[str, Json]:
    """``name=value`` as typed on a command line: the value is JSON or else plain text; not yet validated.

    Raises BadParameter for a text without "=" and for an unknown name.
    """
    name, equals, raw = text.partition("=")
    name = name.strip()
    if not equals:
        raise BadParameter(name, "write it as name=value")
    row = get(name)
    return name, raw if row.kind == "text" else _json_or_text(raw)


def _json_or_text(raw: str) -> Json:
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def _convert(row: Parameter, value: Json) -> Json:
    if value is None and nullable(row):
        return None
    if row.kind == "choice":
        return _choice(row, value)
    converted = _READERS[row.kind](value)
    if row.kind in ("int", "float"):
        _in_range(row, converted)
    return converted


def nullable(row: Parameter) -> bool:
    """Whether null is a value of this row: "off", "the model's own" or "random"."""
    return row.off is None


def _or_null(row: Parameter) -> str:
    return ", or null" if nullable(row) and row.kind != "choice" else ""


def _choice(row: Parameter, value: Json) -> Json:
    wanted = {"true": True, "false": False, "null": None}.get(value, value) if isinstance(value, str) else value
    for choice in row.choices:
        if choice == wanted and type(choice) is type(wanted):
            return choice
    raise ValueError(f"{shown(value)} is not among the choices")


def _in_range(row: Parameter, number: float) -> None:
    low, high = row.minimum, row.maximum
    too_low = low is not None and (number <= low if row.above_minimum else number < low)
    too_high = high is not None and (number >= high if row.below_maximum else number > high)
    if too_low or too_high:
        raise ValueError(f"{shown(number)} is out of range")


def _in_vocabulary(value: Json, row: Parameter, facts: ModelFacts | None) -> None:
    if facts is None or row.kind not in ("token", "tokens", "phrases", "rows"):
        return
    for token in _ids(value, row.kind):
        if token >= facts.vocab_size:
            raise ValueError(f"token {token} is not in this model's vocabulary of {facts.vocab_size}")


def _ids(value: Json, kind: Kind) -> Iterator[int]:
    items = [row[0] for row in value] if kind == "rows" else value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, list):
            yield from item
        elif isinstance(item, int):
            yield item
