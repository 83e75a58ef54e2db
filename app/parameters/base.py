"""The layers below the rules: each parameter's value by precedence, before anything is fitted or set aside."""

from __future__ import annotations

from collections.abc import Mapping

from app.conversation import Json
from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters.numbers import shown
from app.parameters.resolution import Wish
from app.parameters.row import Parameter
from app.parameters.table import SAMPLING, TABLE
from app.parameters.validate import check

FADER_SAMPLING: Mapping[str, Json] = {"do_sample": True, "temperature": 0.7, "top_p": 0.9}
"""How a model chats that says nothing about sampling."""

_SOURCE_WORDS: Mapping[str, str] = {
    "set": "As set.",
    "conversation": "As set in this conversation.",
    "preset": "From the preset.",
}


def base_layer(requested: Mapping[str, Json], facts: ModelFacts, sources: Mapping[str, str]) -> dict[str, Wish]:
    """A wish for every row: what was requested, else the model's, else Fader's or the library's default."""
    model = _model_layer(facts)
    silent = not any(name in model for name in ("do_sample", *SAMPLING))
    return {row.name: _wish(row, requested, model, sources, silent=silent) for row in TABLE}


def _wish(
    row: Parameter,
    requested: Mapping[str, Json],
    model: Mapping[str, Wish],
    sources: Mapping[str, str],
    *,
    silent: bool,
) -> Wish:
    name = row.name
    if name in requested and not (requested[name] is None and row.null_is_unset):
        source = sources.get(name, "set")
        return Wish(requested[name], source, _SOURCE_WORDS.get(source, _SOURCE_WORDS["set"]))
    if name in model:
        return model[name]
    if silent and name in FADER_SAMPLING:
        value = FADER_SAMPLING[name]
        return Wish(value, "fader", f"Fader's default {shown(value)}, because the model says nothing about sampling.")
    return _default(row)


def _default(row: Parameter) -> Wish:
    value = row.unset_value
    if row.fader_default is not None:
        return Wish(value, "fader", f"Fader's default {shown(value)}.")
    if value in (None, False, 0, [], ""):
        return Wish(value, "library", "Off: nobody asks for it.")
    return Wish(
        value, "library", f"Inherited from the library: transformers uses {shown(value)} where nobody says otherwise."
    )


def _model_layer(facts: ModelFacts) -> dict[str, Wish]:
    """What the model's own generation_config.json asks for, as far as the table can use it."""
    wishes = {row.name: wish for row in TABLE if (wish := _models_wish(row, facts)) is not None}
    if "eos_token_id" not in wishes and facts.eos_token_ids:
        ids = list(facts.eos_token_ids)
        wishes["eos_token_id"] = Wish(ids, "model", "The model's own end tokens.")
    return wishes


def _models_wish(row: Parameter, facts: ModelFacts) -> Wish | None:
    value = facts.generation_defaults.get(row.name)
    if value is None or row.own:
        return None
    try:
        value = check(row.name, value, facts)
    except BadParameter:
        return None
    return Wish(value, "model", f"Inherited from the model: its generation_config.json says {shown(value)}.")
