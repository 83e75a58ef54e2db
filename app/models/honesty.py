"""Whether a model that claims to be 4-bit is: the modules that are not, named in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from app.models.options import LoadOptions

_NAMED = 4
"""Kinds of modules named before the rest is counted."""


def four_bit_doubt(model: Any, plain: list[str], options: LoadOptions) -> str:
    """A warning that names the modules in ``plain`` (weights that could be 4-bit and aren't), where 4 bits were asked for or the
    model's own config says that it has them; empty where nothing is claimed, or all of it is true."""
    if not plain:
        return ""
    if options.quantization.four_bit:
        return f"Asked for 4-bit, but these are not: {named(plain)}."
    if _says_4bit(model):
        return f"Its config says 4-bit, but these are not: {named(plain)}."
    return ""


def _says_4bit(model: Any) -> bool:
    told = getattr(model.config, "quantization_config", None)
    fields = told if isinstance(told, dict) else getattr(told, "__dict__", {})
    return any(fields.get(name) for name in ("load_in_4bit", "_load_in_4bit")) or fields.get("bits") == 4


def named(modules: Iterable[str]) -> str:
    """Names of modules, those of one kind in one: ``model.layers.{1–27}.mlp.experts``."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for name in modules:
        before, number, after = re.fullmatch(r"(\D*)(\d*)(.*)", name).groups()  # type: ignore[union-attr]  # it matches anything
        kinds.setdefault((before, after), []).extend([int(number)] if number else [])
    words = [f"{before}{_numbers(found)}{after}" for (before, after), found in kinds.items()]
    rest = len(words) - _NAMED
    return ", ".join(words[:_NAMED]) + (f" and {rest} more kinds" if rest > 0 else "")


def _numbers(found: list[int]) -> str:
    """1–27 for a whole range, 1, 3, 7 for single ones, in braces where there are several."""
    if len(found) < 2:
        return "".join(map(str, found))
    ordered = sorted(found)
    whole = ordered == list(range(ordered[0], ordered[-1] + 1))
    return "{" + (f"{ordered[0]}–{ordered[-1]}" if whole else ", ".join(map(str, ordered))) + "}"
