"""From what was asked to what acts: every parameter gets an explicit effective value and a sentence that explains it.

Order: what the user set → the conversation → the preset → the model's generation_config.json → the library's default (where it
would be useless, Fader's own, said so). "Off" is an explicit value too, so nothing can step in unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.conversation import EMPTY, Json
from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters.base import base_layer
from app.parameters.fitting import FITS, Room
from app.parameters.remote import resolve_remote
from app.parameters.resolution import Draft, Encode, Explanation, Resolution, read_back
from app.parameters.row import Parameter
from app.parameters.sampling_mode import decide_sampling
from app.parameters.table import BY_NAME, SAMPLING, TABLE
from app.parameters.validate import validate

__all__ = ["Encode", "Explanation", "Resolution", "read_back", "resolve"]

UNKNOWN_MODEL = ModelFacts(
    name="",
    label="no model",
    architecture="",
    context_length=131_072,
    vocab_size=1_000_000,
    num_layers=1_000,
    attention="eager",
)
"""Stands in while no model is loaded, so that the page can already explain what was set."""

_FIRST = (
    "do_sample",
    "num_beams",
    "num_return_sequences",
    "use_cache",
    "cache_implementation",
    "disable_compile",
    "eos_token_id",
    "guidance_scale",
    "output_format",
    "watermarking_config",
    "prompt_lookup_num_tokens",
    "max_new_tokens",
    "min_new_tokens",
)
"""Decided before the rest, because the others' predicates look at them."""


def resolve(
    requested: Mapping[str, Json],
    facts: ModelFacts | None,
    *,
    sources: Mapping[str, str] = EMPTY,
    prompt_tokens: int | None = None,
) -> Resolution:
    """Effective values and explanations for ``requested`` on this model (None: no model yet).

    ``sources`` says for a requested name whether it is "set" (default), from the "conversation" or the "preset"; ``prompt_tokens``
    is the prompt's length where it is known; for encoder–decoder models, whose reply has the context to itself, the number of reply
    tokens given in advance (usually 0), the decoder's start token not counted.
    Raises BadParameter for values that ``validate`` refuses, and for a directly set one that this model or machine can't do at all.
    """
    if facts is not None and facts.remote is not None:
        return resolve_remote(validate(requested, facts), facts, sources)
    known = facts or UNKNOWN_MODEL
    draft = Draft(base_layer(validate(requested, facts), known, sources), known)
    decide_sampling(draft)
    start = 1 if known.is_encoder_decoder else 0
    room = Room(known, None if prompt_tokens is None else prompt_tokens + start)
    for row in _in_order():
        _settle(row, draft, room)
    return Resolution(dict(draft.values), {row.name: draft.explained[row.name] for row in TABLE}, tuple(_notes(draft)))


def _in_order() -> Iterator[Parameter]:
    yield from (BY_NAME[name] for name in _FIRST)
    yield from (row for row in TABLE if row.name not in _FIRST)


def _settle(row: Parameter, draft: Draft, room: Room) -> None:
    """Decide one row: not applicable, fitted, or as it stands."""
    if obstacle := row.applies_when(draft.values, draft.facts):
        _set_aside(row, draft, obstacle)
    fit = FITS.get(row.name)
    if fit:
        fit(draft, room)
    elif row.limit and not obstacle:
        _clamp(row, draft)


def _set_aside(row: Parameter, draft: Draft, obstacle: str) -> None:
    value, wish = draft.values[row.name], draft.wishes[row.name]
    available = _could_act(row, draft)
    if value == row.off and wish.requested:
        draft.inactive(
            row.name, row.off, f"Left at its neutral value, and not in use: {obstacle}.", "set", available=available
        )
    elif not wish.requested:
        draft.inactive(row.name, row.off, f"Not in use: {obstacle}.", available=available)
    elif row.refused and wish.source == "set" and draft.facts.name:
        raise BadParameter(row.name, obstacle)
    else:
        draft.inactive(row.name, row.off, f"Ignored: {obstacle}.", "ignored", available=available)


def _could_act(row: Parameter, draft: Draft) -> bool:
    """Whether setting it would make it act although it doesn't now: a sampling parameter switches sampling on, and so forth."""
    if row.name in SAMPLING:
        return not draft.requested("do_sample") and (
            draft.wishes["temperature"].value != 0 or row.name == "temperature"
        )
    if row.name == "cache_implementation":
        return bool(draft.values["use_cache"])
    return row.name == "max_length" and not draft.requested("max_new_tokens")


def _clamp(row: Parameter, draft: Draft) -> None:
    value, high = draft.values[row.name], row.maximum_for(draft.facts)
    if isinstance(value, int) and high is not None and value > high:
        draft.clamp(row.name, int(high), f"Clamped to {high:.0f}, {row.limit_name}.")


def _notes(draft: Draft) -> Iterator[str]:
    """What a user should be told beside the reply: every wish that wasn't carried out as it was, and a reply that can't stream."""
    for row in TABLE:
        told = draft.explained[row.name]
        if draft.wishes[row.name].requested and told.kind in ("clamped", "ignored", "conflict"):
            yield f"{row.name}: {told.reason}"
    if draft.values["num_beams"] > 1:
        yield (
            f"Streaming is off: beam search (num_beams {draft.values['num_beams']}) compares whole replies, so the text appears "
            "when the best one is complete."
        )
