"""Rules that fit one value to others and to the room in the context; each says what it changed and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters.resolution import Draft
from app.parameters.row import Parameter
from app.parameters.rules import with_guidance
from app.parameters.table import BY_NAME

COLDEST = 1e-4
"""Logits reach some hundreds; divided by this they are still far from the end of float32."""

LARGEST = 1e300
"""Close to the end of a Python float."""

OUTPUTS = ("output_attentions", "output_hidden_states", "output_scores", "output_logits")


@dataclass(frozen=True, slots=True)
class Room:
    """The context and how much of it the prompt takes (None: not known yet)."""

    facts: ModelFacts
    prompt_tokens: int | None

    @property
    def context(self) -> int:
        """The most tokens that prompt and reply can have together."""
        return self.facts.context_length

    @property
    def free(self) -> int:
        """Tokens left for the reply, at least one."""
        return max(1, self.context - (self.prompt_tokens or 0))

    @property
    def words(self) -> str:
        """The free room in words."""
        if not self.prompt_tokens or self.facts.is_encoder_decoder:
            return f"the model's context of {self.context} tokens"
        return f"what the context of {self.context} leaves free beside the prompt's {self.prompt_tokens} tokens"


def fit_max_new_tokens(draft: Draft, room: Room) -> None:
    """The reply's length: as asked within the free room; stands back only where max_length alone was asked for."""
    name = "max_new_tokens"
    wanted = draft.values[name]
    if draft.requested("max_length") and draft.values["max_length"] is not None and not draft.requested(name):
        draft.inactive(name, None, "Not in use: max_length is set and bounds prompt and reply together.")
    elif wanted is None:
        draft.clamp(name, room.free, f"As long as there is room: {room.free}, {room.words}.")
        draft.tell(name, draft.explained[name].reason, "set")
    elif wanted > room.free:
        draft.clamp(name, room.free, f"{_said(draft, name)} {wanted}, fitted to {room.free}: {room.words}.")


def _said(draft: Draft, name: str) -> str:
    source = draft.wishes[name].source
    return {"fader": "Fader's default", "model": "The model asks for"}.get(source, "Clamped: asked for")


def fit_max_length(draft: Draft, room: Room) -> None:
    """Prompt and reply together: what was asked, or what follows from max_new_tokens."""
    name = "max_length"
    new = draft.values["max_new_tokens"]
    if new is not None:
        asked = draft.requested(name)
        total = None if room.prompt_tokens is None else room.prompt_tokens + new
        sentence = "Follows from max_new_tokens" + (
            f": {room.prompt_tokens} + {new}." if total else ", added to the prompt."
        )
        told = f"Ignored: max_new_tokens is set and counts instead. {sentence}" if asked else sentence
        draft.inactive(name, total, told, "conflict" if asked else "unused")
        return
    _fit_asked_length(draft, room)


def _fit_asked_length(draft: Draft, room: Room) -> None:
    asked = draft.wishes["max_length"].value
    if asked > room.context:
        draft.clamp("max_length", room.context, f"Clamped to {room.context}, the model's context.")
    prompt = room.prompt_tokens
    if prompt is not None and prompt >= draft.values["max_length"]:
        why = f"the prompt alone has {prompt} tokens; set it above that, or use max_new_tokens instead"
        raise BadParameter("max_length", why)


def fit_min_new_tokens(draft: Draft, room: Room) -> None:
    """Never more than the reply may have."""
    high = draft.values["max_new_tokens"]
    if high is None:
        high = max(0, min(draft.wishes["max_length"].value, room.context) - (room.prompt_tokens or 0))
    if draft.values["min_new_tokens"] > high:
        draft.clamp("min_new_tokens", high, f"Clamped to {high}: the reply can't be longer (max_new_tokens).")


def fit_min_length(draft: Draft, room: Room) -> None:
    """Within the longest possible text; where min_new_tokens counts, what follows from it."""
    new, prompt = draft.values["min_new_tokens"], room.prompt_tokens
    if new:
        if prompt is not None:
            sentence = f"Follows from min_new_tokens: {prompt} + {new}."
            asked = draft.requested("min_length")
            told = f"Ignored: min_new_tokens is set and counts instead. {sentence}" if asked else sentence
            draft.inactive("min_length", prompt + new, told, "conflict" if asked else "unused", available=False)
        return
    longest = room.context if prompt is None else min(room.context, _longest(draft, prompt))
    if draft.values["min_length"] > longest:
        draft.clamp("min_length", longest, f"Clamped to {longest}, the most that prompt and reply can have.")


def _longest(draft: Draft, prompt: int) -> int:
    new = draft.values["max_new_tokens"]
    return int(draft.values["max_length"]) if new is None else prompt + int(new)


def fit_num_return_sequences(draft: Draft, _room: Room) -> None:
    """One when greedy, at most the beams when there are beams."""
    name, beams = "num_return_sequences", draft.values["num_beams"]
    if draft.values[name] == 1:
        return
    if beams > 1:
        if draft.values[name] > beams:
            draft.clamp(name, beams, f"Clamped to {beams}: beam search keeps only that many (num_beams).")
    elif not draft.values["do_sample"]:
        draft.clamp(name, 1, "Clamped to 1: greedy decoding has only one reply; switch do_sample on or use beams.")


def fit_return_dict(draft: Draft, _room: Room) -> None:
    """Implied by every output that is asked for."""
    name = "return_dict_in_generate"
    if draft.values[name] or not (asked := [n for n in OUTPUTS if draft.values[n]]):
        return
    if draft.requested(name):
        draft.conflict(
            name,
            value=True,
            reason=f"Conflicts with {' and '.join(asked)}, which can't be returned without it: switched on.",
        )
    else:
        draft.imply(name, value=True, reason=f"Switched on, implied by {' and '.join(asked)}.")


def fit_pad_token(draft: Draft, _room: Room) -> None:
    """The first end token fills up where the model has no padding token."""
    ends = draft.values["eos_token_id"]
    if draft.values["pad_token_id"] is None and ends:
        draft.imply("pad_token_id", ends[0], "The model has no padding token, so its first end token fills up.")


def fit_top_k(draft: Draft, room: Room) -> None:
    """Not more than there are tokens."""
    _at_most(BY_NAME["top_k"], draft, room.facts.vocab_size, "the size of the vocabulary")


def fit_negative_prompt(draft: Draft, room: Room) -> None:
    """Shares the context with the reply."""
    if not with_guidance(draft.values, room.facts) and not draft.values["negative_prompt"]:
        draft.tell("negative_prompt", "Empty: guidance pushes away from what the model would say without the prompt.")


def fit_temperature(draft: Draft, _room: Room) -> None:
    """A temperature of 0 can't be sent; greedy decoding is what it means, and the neutral 1.0 goes along."""
    name, wish = "temperature", draft.wishes["temperature"].value
    if wish == 0:
        reason = "0 means greedy: the likeliest token every time, the same text for every seed."
        draft.inactive(name, 1.0, reason, "implied")
    elif draft.values[name] < COLDEST:
        draft.clamp(name, COLDEST, f"Clamped to {COLDEST}: dividing by less overflows; use 0 for greedy.")


def fit_decay(draft: Draft, room: Room) -> None:
    """The growth is computed as factor to the power of the tokens since start, which must stay a number."""
    name = "exponential_decay_length_penalty"
    if draft.values[name] is None:
        return
    start, factor = draft.values[name]
    steps = (draft.values["max_new_tokens"] or room.free) - start
    if steps > 0 and factor > (highest := LARGEST ** (1 / steps)):
        factor = math.floor(highest * 1000) / 1000
        draft.clamp(name, [start, factor], f"Factor clamped to {factor}: a larger one overflows over {steps} tokens.")


def _at_most(row: Parameter, draft: Draft, high: int, words: str) -> None:
    if draft.explained[row.name].active and draft.values[row.name] > high:
        draft.clamp(row.name, high, f"Clamped to {high}, {words}.")


Fit: TypeAlias = Callable[[Draft, Room], None]

FITS: Mapping[str, Fit] = {
    "max_new_tokens": fit_max_new_tokens,
    "max_length": fit_max_length,
    "min_new_tokens": fit_min_new_tokens,
    "min_length": fit_min_length,
    "num_return_sequences": fit_num_return_sequences,
    "return_dict_in_generate": fit_return_dict,
    "pad_token_id": fit_pad_token,
    "temperature": fit_temperature,
    "exponential_decay_length_penalty": fit_decay,
    "top_k": fit_top_k,
    "negative_prompt": fit_negative_prompt,
}
