"""What a person can choose about a load, a row each: page, command line, what is remembered, and what a change needs follow from here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal, get_args

from app.conversation import Json
from app.errors import BadParameter
from app.models import devices
from app.models.options import Attention, ComputeDtype, LoadOptions, Quantization, Scheme

Takes = Literal["load", "preparation"]
"""What a change needs: the model loaded anew, or its 4-bit copy made anew as well (once for each set of values)."""
TAKES: Mapping[Takes, str] = MappingProxyType({"load": "a new load", "preparation": "a new 4-bit copy"})
_NESTED = frozenset(each.name for each in fields(Quantization))
_MAY_BE_BITSANDBYTES = ("auto", "nf4", "fp4")
_CARD = re.compile(r"cuda(:\d+)?")


@dataclass(frozen=True, slots=True)
class Choice:
    """A row. ``values`` in the order in which they are offered; True and False make a switch. ``labels``: how they are shown."""

    name: str
    label: str
    takes: Takes
    values: tuple[Json, ...]
    help: str
    labels: Mapping[Json, str] = field(default_factory=dict)

    def label_of(self, value: Json) -> str:
        """How a value is shown."""
        plain = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        return self.labels.get(value, str(plain))


ROWS: tuple[Choice, ...] = (
    Choice(
        "scheme",
        "Weights",
        "preparation",
        get_args(Scheme),
        "auto is int4 where the source has such 4 bits already (GGUF files like Q4_1), else NF4, which is closer to the original than FP4.",
        MappingProxyType(
            {
                "auto": "4-bit (auto)",
                "nf4": "4-bit (NF4)",
                "fp4": "4-bit (FP4)",
                "int4": "4-bit (int4)",
                "none": "as they are (not quantized)",
            }
        ),
    ),
    Choice(
        "double_quant",
        "Double quantization",
        "preparation",
        (True, False),
        "Keeps the scales of the 4-bit weights in 8 bits: a little smaller.",
    ),
    Choice(
        "compute_dtype",
        "Computes in",
        "preparation",
        get_args(ComputeDtype),
        "float16 suits older graphics cards; float32 is the most exact and the slowest.",
    ),
    Choice(
        "attention",
        "Attention",
        "load",
        get_args(Attention),
        "auto is the quickest that the model has; output_attentions needs eager.",
    ),
    Choice(
        "device",
        "Runs on",
        "load",
        ("auto", "cpu", "cuda"),
        "auto takes a graphics card if there is one; cuda shares the model out over all of them.",
        MappingProxyType({"cpu": "processor (cpu)", "cuda": "graphics cards (cuda)"}),
    ),
    Choice(
        "save_prepared",
        "Keep the 4-bit copy",
        "load",
        (True, False),
        "The next start reads it instead of quantizing anew.",
    ),
)
_BY_NAME: Mapping[str, Choice] = MappingProxyType({row.name: row for row in ROWS})


def value_of(options: LoadOptions, name: str) -> Json:
    """The value of a row."""
    return getattr(options.quantization if name in _NESTED else options, name)


def as_json(options: LoadOptions) -> dict[str, Json]:
    """All values by name."""
    return {row.name: value_of(options, row.name) for row in ROWS}


def changed(options: LoadOptions, values: Mapping[str, Json]) -> LoadOptions:
    """The options with these values (text from a command line too). Raises BadParameter for what can't be, or not on this machine."""
    for name, value in values.items():
        options = _put(options, name, _checked(name, value))
        if reason := unusable(name, value_of(options, name)):
            raise BadParameter(name, reason)
    return options


def from_json(kept: Mapping[str, Json]) -> LoadOptions:
    """Options that were remembered, perhaps by another version or on another machine: what doesn't hold here is left at its default."""
    options = LoadOptions()
    for row in ROWS:
        try:
            options = changed(options, {row.name: kept[row.name]} if row.name in kept else {})
        except BadParameter:
            continue
    return options


def _put(options: LoadOptions, name: str, value: Json) -> LoadOptions:
    change: Any = {name: value}
    if name in _NESTED:
        return replace(options, quantization=replace(options.quantization, **change))
    return replace(options, **change)


def _checked(name: str, value: Json) -> Json:
    row = _BY_NAME.get(name)
    if row is None:
        raise BadParameter(name, f"there is no such setting of a load; there are {', '.join(_BY_NAME)}")
    plain = {"true": True, "on": True, "false": False, "off": False}.get(value, value) if True in row.values else value
    if (name == "device" and isinstance(plain, str) and _CARD.fullmatch(plain)) or plain in row.values:
        return plain
    words = ["on" if one is True else "off" if one is False else str(one) for one in row.values]
    raise BadParameter(name, f"{value!r} is not one of {', '.join(words)}")


def unusable(name: str, value: Json) -> str:
    """Why a value can't be had on this machine; empty when it can."""
    if name == "device":
        return devices.unusable(str(value))
    if value == "flash_attention_2" and not (devices.cards() and find_spec("flash_attn")):
        return "flash_attention_2 needs a graphics card and the package flash-attn"
    return ""


def offered(name: str, options: LoadOptions) -> tuple[Json, ...]:
    """The values that make sense on this machine, and the present one in any case."""
    row = _BY_NAME[name]
    more = [f"cuda:{number}" for number in range(devices.cards())] if name == "device" and devices.cards() > 1 else []
    present = value_of(options, name)
    return tuple(value for value in (*row.values, *more) if value == present or not unusable(name, value))


def idle(options: LoadOptions, name: str) -> str:
    """Why a row changes nothing beside the others; empty when it does."""
    quantization = options.quantization
    if name in ("double_quant", "save_prepared") and not quantization.four_bit:
        return "Not in use: the weights are not quantized."
    if name == "double_quant" and quantization.scheme not in _MAY_BE_BITSANDBYTES:
        return f"Not in use: {quantization.scheme} has no scales that could be quantized again."
    return ""


def needs(row: Choice, options: LoadOptions) -> str:
    """What a change of a row takes beside the others: weights that aren't quantized have no copy that would be made anew."""
    return TAKES[row.takes if options.quantization.four_bit or row.name == "scheme" else "load"]


def differences(before: LoadOptions, after: LoadOptions) -> tuple[Choice, ...]:
    """The rows in which two sets differ and which change something."""
    return tuple(
        row
        for row in ROWS
        if value_of(before, row.name) != value_of(after, row.name)
        and not (idle(before, row.name) and idle(after, row.name))
    )
