"""The way to transformers and back: effective values in the exact types and shapes of GenerationConfig, and its fields as JSON.

torch and transformers are only touched when a run really starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.conversation import Json
from app.errors import BadParameter
from app.parameters.row import Kind, Parameter
from app.parameters.table import TABLE

if TYPE_CHECKING:
    from app.parameters.resolution import Encode

CARRIED_OUT_BY_ENGINE = frozenset({"stop_strings", "token_healing"})
"""generate needs a tokenizer for these and a custom decode loop gets none, so the engine does them itself."""

_BEFORE = "("
"""Encoded in front of a phrase to see how the phrase is tokenized in the middle of a text, without a space before it."""


def generation_kwargs(values: Mapping[str, Json], encode: Encode) -> dict[str, Any]:
    """Keyword arguments for ``GenerationConfig``, every field of the table present, so that "off" is explicit.

    Fields whose "off" is None are None; the engine therefore empties ``model.generation_config`` when it loads a model, so that
    the model's own values come in through the resolution alone. Raises BadParameter for a text that is no single token where one
    is needed, and for tokens that are forced and suppressed at once.
    """
    rows = sorted(TABLE, key=lambda row: row.name != "eos_token_id")  # first, because padding may be borrowed from it
    kwargs = {row.name: _sent(row, values[row.name], encode) for row in rows if not row.own}
    for total, new in (("max_length", "max_new_tokens"), ("min_length", "min_new_tokens")):
        if kwargs[new] is not None:  # generate computes the total from it, and warns when it gets both
            kwargs[total] = None
    _check_forced(kwargs)
    return kwargs


def _sent(row: Parameter, value: Json, encode: Encode) -> Any:
    if row.name in CARRIED_OUT_BY_ENGINE or value is None or (row.off_as_none and value == row.off):
        return None
    writer = _WRITERS.get(row.kind)
    return writer(row, value, encode) if writer else value


def _token(row: Parameter, value: Json, encode: Encode) -> int:
    if isinstance(value, int):
        return value
    ids = list(encode(value))
    if len(ids) != 1:
        raise BadParameter(
            row.name, f"“{value}” is {len(ids)} tokens {ids}; it takes a single token, as text or as its id"
        )
    return ids[0]


def _tokens(row: Parameter, value: Json, encode: Encode) -> list[int] | None:
    exact = row.name in ("eos_token_id", "forced_eos_token_id")
    ids = [i for item in value for i in ([_token(row, item, encode)] if exact else _suppressed(row, item, encode))]
    return list(dict.fromkeys(ids)) or None


def _suppressed(row: Parameter, item: Json, encode: Encode) -> list[int]:
    """A suppressed text in all its forms that are one token; at least one must be."""
    if isinstance(item, int):
        return [item]
    single = [ids[0] for ids in variants(item, encode) if len(ids) == 1]
    return single or [_token(row, item, encode)]


def variants(text: str, encode: Encode) -> list[list[int]]:
    """The token ids of a phrase at the start, after a space, and inside a text. Typed with a leading space: only after one."""
    if text.startswith(" "):
        candidates = [list(encode(text)), _inside(text, encode)]
    else:
        candidates = [list(encode(text)), list(encode(f" {text}")), _inside(text, encode), _inside(f" {text}", encode)]
    return [ids for i, ids in enumerate(candidates) if ids and ids not in candidates[:i]]


def _inside(text: str, encode: Encode) -> list[int]:
    """How a text is tokenized behind other text: tokenizers that put a space before every text hide that otherwise."""
    before, both = list(encode(_BEFORE)), list(encode(_BEFORE + text))
    return both[len(before) :] if both[: len(before)] == before else []


def _phrases(_row: Parameter, value: Json, encode: Encode) -> list[list[int]] | None:
    found = [ids for item in value for ids in _forms(item, encode)]
    return [ids for i, ids in enumerate(found) if ids not in found[:i]] or None


def _forms(item: Json, encode: Encode) -> list[list[int]]:
    return variants(item, encode) if isinstance(item, str) else [list(item)]


def _rows(_row: Parameter, value: Json, encode: Encode) -> list[list[Any]] | None:
    """[[ids, bias], …]; where two rows name the same tokens, the later one counts."""
    biases = {tuple(ids): float(bias) for phrase, bias in value for ids in _forms(phrase, encode)}
    return [[list(ids), bias] for ids, bias in biases.items()] or None


def _pair(_row: Parameter, value: Json, _encode: Encode) -> tuple[int, float]:
    return int(value[0]), float(value[1])


def _watermark(_row: Parameter, value: Json, _encode: Encode) -> Any:
    from transformers import SynthIDTextWatermarkingConfig, WatermarkingConfig

    fields = {name: field for name, field in value.items() if name != "kind"}
    return (SynthIDTextWatermarkingConfig if value["kind"] == "synthid" else WatermarkingConfig)(**fields)


def _compile(_row: Parameter, value: Json, _encode: Encode) -> Any:
    from transformers import CompileConfig

    config = CompileConfig(**value)
    vars(config)["_compile_all_devices"] = True  # else a CPU would silently ignore what the user asked for
    return config


_WRITERS: Mapping[Kind, Callable[[Parameter, Json, Encode], Any]] = {
    "token": _token,
    "tokens": _tokens,
    "phrases": _phrases,
    "rows": _rows,
    "pair": _pair,
    "watermark": _watermark,
    "compile": _compile,
}


def _check_forced(kwargs: Mapping[str, Any]) -> None:
    """A token that must come and may not come leaves nothing to choose."""
    suppressed = set(kwargs["suppress_tokens"] or ())
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        forced = kwargs[name]
        wanted = set() if forced is None else {forced} if isinstance(forced, int) else set(forced)
        if wanted and wanted <= suppressed:
            raise BadParameter(name, "conflicts with suppress_tokens: the token is forced and suppressed at once")


def as_json(row: Parameter, field: object) -> Json:
    """A field of a prepared GenerationConfig as a JSON value; None where it stands for "off" becomes the off value."""
    if field is None:
        return row.off
    plain = _plain(field)
    if row.kind == "tokens" and isinstance(plain, int):
        return [plain]
    return plain


def _plain(field: Any) -> Json:
    if hasattr(field, "tolist"):  # a tensor or an array
        return field.tolist()
    if isinstance(field, Mapping):
        return {_key(key): _plain(value) for key, value in field.items()}
    if isinstance(field, Sequence | set) and not isinstance(field, str):
        return [_plain(item) for item in field]
    return field if isinstance(field, str | int | float) or field is None else _object(field)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(list(key)) if isinstance(key, tuple) else str(key)


def _object(field: Any) -> Json:
    """A configuration object (watermark, compile) in the table's own form."""
    fields = dict(_fields(field))
    if "keys" in fields:
        return {"kind": "synthid", **fields}
    return {"kind": "greenlist", **fields} if "greenlist_ratio" in fields else fields


def _fields(field: Any) -> Iterator[tuple[str, Json]]:
    for name, value in vars(field).items():
        if not name.startswith("_"):
            yield name, _plain(value)
