"""Exact conversions of structured values: texts, tokens, phrases, bias rows, pairs, forms. Raises ValueError with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NoReturn

from app.conversation import Json
from app.parameters.formats import complaint
from app.parameters.numbers import shown, to_bool, to_float, to_int

MAX_ITEMS = 10_000
SYNTHID_TABLE_LIMIT = 2**24


def read_json(value: Json) -> Json:
    """A text that spells a JSON array or object, read; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def to_text(value: Json) -> str:
    """A text."""
    if not isinstance(value, str):
        _refuse(f"{shown(value)} is not a text")
    return value


def to_texts(value: Json) -> list[str]:
    """A list of non-empty texts without repeats; one text is a list of one."""
    return _unique([_filled(item) for item in _items(value)])


def to_token(value: Json) -> int | str:
    """A token as its text or id. A number, also one written as text, is an id."""
    if isinstance(value, str) and not value.strip().isdecimal():
        return _filled(value)
    return _token_id(value)


def to_tokens(value: Json) -> list[int | str]:
    """A list of tokens; inside a list a text is always a text, so ["40"] is the token "40" and [40] the id."""
    single = isinstance(value, str | int | float) and not isinstance(read_json(value), list)
    return _unique([to_token(value)] if single else [_member(item) for item in _items(value)])


def _member(item: Json) -> int | str:
    return _filled(item) if isinstance(item, str) else _token_id(item)


def to_phrases(value: Json) -> list[str | list[int]]:
    """A list of phrases: texts, or lists of token ids (a bare id is a list of one)."""
    return _unique([_phrase(item) for item in _items(value)])


def _phrase(item: Json) -> str | list[int]:
    if isinstance(item, str):
        return _filled(item)
    ids = item if isinstance(item, list | tuple) else [item]
    if not ids:
        _refuse("a list of token ids is empty")
    return [_token_id(i) for i in ids]


def to_rows(value: Json) -> list[list[Json]]:
    """Bias rows [text or ids, bias]; also {"text": …, "bias": …}, {"ids": […], "bias": …} and an object {text: bias}."""
    value = read_json(value)
    items = list(map(list, value.items())) if isinstance(value, dict) else _items(value)
    return [_row(item) for item in items]


def _row(item: Json) -> list[Json]:
    if isinstance(item, dict):
        item = [item.get("text", item.get("ids")), item.get("bias")]
    if not isinstance(item, list | tuple) or len(item) != 2:
        _refuse(f"{shown(item)} is not a row [text or token ids, bias]")
    phrase, bias = item
    number = to_float(bias)
    if abs(number) > 100:
        _refuse(f"the bias {number:g} is not between -100 and 100")
    return [_phrase(phrase), number]


def to_pair(value: Json) -> list[Json]:
    """[start, factor]: start a whole number from 0, factor above 0."""
    value = read_json(value)
    if not isinstance(value, list | tuple) or len(value) != 2:
        _refuse(f"{shown(value)} is not a pair [start, factor]")
    start, factor = to_int(value[0]), to_float(value[1])
    if start < 0 or factor <= 0:
        _refuse(f"{shown(list(value))}: start can't be negative and factor must be above 0")
    return [start, factor]


def to_object(value: Json) -> dict[str, Json]:
    """A JSON object."""
    value = read_json(value)
    if not isinstance(value, dict):
        _refuse(f"{shown(value)} is not a JSON object")
    return dict(value)


_GREENLIST: Mapping[str, Json] = {
    "greenlist_ratio": 0.25,
    "bias": 2.0,
    "hashing_key": 15485863,
    "seeding_scheme": "lefthash",
    "context_width": 1,
}
_SYNTHID: Mapping[str, Json] = {
    "ngram_len": 5,
    "keys": [654, 400, 836, 123, 340, 443, 597, 160, 57, 29, 590, 639, 13, 715, 468, 990, 966, 226, 324, 585],
    "context_history_size": 1024,
    "sampling_table_seed": 0,
    "sampling_table_size": 65536,
    "skip_first_ngram_calls": False,
    "debug_mode": False,
}


def to_watermark(value: Json) -> dict[str, Json]:
    """A complete watermark configuration; missing fields get the library's defaults, unknown ones are refused."""
    given = to_object(value)
    kind = given.pop("kind", "synthid" if "keys" in given or "ngram_len" in given else "greenlist")
    if kind not in ("greenlist", "synthid"):
        _refuse(f'kind {shown(kind)} is neither "greenlist" nor "synthid"')
    defaults = _GREENLIST if kind == "greenlist" else _SYNTHID
    _known(given, defaults)
    return {"kind": kind, **{name: _watermark_field(name, given.get(name, d)) for name, d in defaults.items()}}


_NUMBERS: Mapping[str, tuple[float, float]] = {
    "hashing_key": (1, 2**31 - 1),
    "context_width": (1, 64),
    "ngram_len": (2, 64),
    "context_history_size": (1, 2**20),
    "sampling_table_seed": (0, 2**32 - 1),
    "sampling_table_size": (2, SYNTHID_TABLE_LIMIT),
}


def _watermark_field(name: str, value: Json) -> Json:
    try:
        return _WATERMARK_FIELDS[name](value) if name in _WATERMARK_FIELDS else _whole(value, *_NUMBERS[name])
    except ValueError as error:
        message = f"{name}: {error}"
        raise ValueError(message) from None


def _whole(value: Json, low: float, high: float) -> int:
    number = to_int(value)
    if not low <= number <= high:
        _refuse(f"{number} is not from {low:.0f} to {high:.0f}")
    return number


def _ratio(value: Json) -> float:
    number = to_float(value)
    if not 0 < number < 1:
        _refuse(f"{number:g} is not between 0 and 1")
    return number


def _bias(value: Json) -> float:
    number = to_float(value)
    if not 0 <= number <= 20:
        _refuse(f"{number:g} is not from 0 to 20")
    return number


def _scheme(value: Json) -> str:
    if value not in ("lefthash", "selfhash"):
        _refuse(f'{shown(value)} is neither "lefthash" nor "selfhash"')
    return str(value)


def _keys(value: Json) -> list[int]:
    keys = [_whole(item, 0, 2**31 - 1) for item in _items(value)]
    if not keys:
        _refuse("at least one key is needed")
    return keys


_WATERMARK_FIELDS: Mapping[str, Callable[[Json], Json]] = {
    "greenlist_ratio": _ratio,
    "bias": _bias,
    "seeding_scheme": _scheme,
    "keys": _keys,
    "skip_first_ngram_calls": to_bool,
    "debug_mode": to_bool,
}

_COMPILE: Mapping[str, Json] = {
    "backend": "inductor",
    "mode": "reduce-overhead",
    "fullgraph": False,
    "dynamic": None,
    "options": None,
}
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def to_compile(value: Json) -> dict[str, Json]:
    """A complete compile configuration; missing fields get the library's defaults, unknown ones are refused."""
    given = to_object(value)
    _known(given, _COMPILE)
    full = {**_COMPILE, **given}
    if full["options"] is not None and given.get("mode") is None:
        full["mode"] = None  # a mode is a set of options, so torch takes one or the other
    elif full["options"] is not None:
        _refuse("mode and options exclude each other")
    elif full["mode"] not in COMPILE_MODES:
        _refuse(f"mode {shown(full['mode'])} is not one of {', '.join(COMPILE_MODES)}")
    return {
        "backend": _filled(full["backend"]),
        "mode": full["mode"],
        "fullgraph": to_bool(full["fullgraph"]),
        "dynamic": None if full["dynamic"] is None else to_bool(full["dynamic"]),
        "options": None if full["options"] is None else to_object(full["options"]),
    }


def to_format(value: Json) -> dict[str, Json]:
    """A structured-output request: {"kind": "json_schema" | "regex" | "choices", …}, its payload under the kind's own name."""
    given = to_object(value)
    kind = given.get("kind")
    if kind not in _FORMATS:
        _refuse(f"kind {shown(kind)} is not one of {', '.join(_FORMATS)}")
    field, read = _FORMATS[str(kind)]
    _known(given, {"kind": None, field: None})
    if field not in given:
        _refuse(f"“{field}” is missing")
    wanted = {"kind": kind, field: read(given[field])}
    if wrong := complaint(wanted):
        _refuse(wrong)
    return wanted


def _filled(value: Json) -> str:
    text = to_text(value)
    if not text:
        _refuse("a text is empty")
    return text


def _schema(value: Json) -> Json:
    schema = read_json(value)
    if not isinstance(schema, dict | bool):
        _refuse(f"schema: {shown(value)} is not a JSON schema (an object)")
    return schema


def _choices(value: Json) -> list[str]:
    texts = to_texts(value)
    if not texts:
        _refuse("choices: at least one text is needed")
    return texts


_FORMATS: Mapping[str, tuple[str, Callable[[Json], Json]]] = {
    "json_schema": ("schema", _schema),
    "regex": ("pattern", _filled),
    "choices": ("choices", _choices),
}


def _known(given: Mapping[str, Json], allowed: Mapping[str, Json]) -> None:
    if unknown := sorted(set(given) - set(allowed)):
        _refuse(f"unknown field {', '.join(map(str, unknown))}; there are {', '.join(allowed)}")


def _items(value: Json) -> list[Json]:
    value = read_json(value)
    if isinstance(value, dict) or value is None or isinstance(value, bool):
        _refuse(f"{shown(value)} is not a list")
    items = list(value) if isinstance(value, list | tuple) else [value]
    if len(items) > MAX_ITEMS:
        _refuse(f"{len(items)} entries are more than {MAX_ITEMS}")
    return items


def _token_id(value: Json) -> int:
    number = to_int(value)
    if number < 0:
        _refuse(f"token ids start at 0, and {number} is below")
    return number


def _unique(items: list[Json]) -> list[Json]:
    return [item for i, item in enumerate(items) if item not in items[:i]]


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)
