"""Assisted generation: a draft model beside the main one, prepared for each run.

The library reads what a user sets about drafting from the *draft's* generation config, draws from a shared random state, and prunes a
draft with another tokenizer for good; here each run gets what it asked for and leaves both models as they were.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from app.engine.speculation.draft import DraftGuesser
from app.engine.speculation.plan import Chances
from app.errors import Cancelled, UnsupportedModel
from app.parameters.rules import with_draft

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from threading import Event

    from transformers import GenerationConfig

    from app.conversation import Json
    from app.engine.speculation.reader import DraftReader
    from app.models.facts import ModelFacts
    from app.models.loading import LoadedModel

HOPE = 0.7
"""The chance that a draft's guess is right before it has made any: about what Leviathan et al. (2023, table 2) found for smaller models of
the same family."""
OWN_TOKENS = (
    "bad_words_ids",
    "sequence_bias",
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "exponential_decay_length_penalty",
    "encoder_repetition_penalty",
    "watermarking_config",
)
"""Settings that speak of the main model's token ids and mean nothing to a draft with another tokenizer."""


@dataclass(eq=False)
class Draft:
    """A draft model and how it fits the main one. ``grown``: the draft length that the "heuristic" schedule has reached, with the
    length it started from. ``reader``: its own fast step, where it has one that the main model's can check; ``chances``: how often it
    is right."""

    loaded: LoadedModel
    name: str
    shares_tokenizer: bool
    grown: tuple[int, int] | None = None
    reader: DraftReader | None = None
    chances: Chances = field(default_factory=lambda: Chances(HOPE))


def pair(main: LoadedModel, draft: LoadedModel, name: str, reader: DraftReader | None = None) -> Draft:
    """The draft for this main model. Raises UnsupportedModel when the two can't work together."""
    if main.facts.is_encoder_decoder != draft.facts.is_encoder_decoder:
        sentence = f"{name} can't draft for this model: one of them has an encoder and the other hasn't."
        raise UnsupportedModel(sentence)
    same = main.tokenizer.get_vocab() == draft.tokenizer.get_vocab()
    if main.facts.is_encoder_decoder and not same:
        sentence = f"{name} can't draft for this model: encoder–decoder models must share their tokenizer."
        raise UnsupportedModel(sentence)
    shares = same and main.facts.vocab_size == draft.facts.vocab_size
    return Draft(draft, name, shares, reader=reader if shares else None)


def facts_with(facts: ModelFacts, draft: Draft | None) -> ModelFacts:
    """The main model's facts with this draft beside it, or with none."""
    if draft is None:
        return replace(facts, draft_model=None, draft_shares_tokenizer=True)
    return replace(facts, draft_model=draft.name, draft_shares_tokenizer=draft.shares_tokenizer)


def drafts(draft: Draft | None, values: Mapping[str, Json], facts: ModelFacts) -> bool:
    """Whether the draft takes part in a run with these values."""
    return draft is not None and with_draft(values, facts) is None


def prepare(draft: Draft, main: LoadedModel, values: Mapping[str, Json]) -> dict[str, Any]:
    """Set the draft up for a run and return what the library's loop needs of it."""
    from transformers import GenerationConfig

    model, tokenizer = draft.loaded.model, draft.loaded.tokenizer
    model.generation_config = GenerationConfig(
        is_assistant=True,
        num_assistant_tokens=_length(draft, values),
        num_assistant_tokens_schedule=values["num_assistant_tokens_schedule"],
        assistant_confidence_threshold=values["assistant_confidence_threshold"],
        assistant_lookbehind=values["assistant_lookbehind"],
        target_lookbehind=values["target_lookbehind"],
    )
    if draft.shares_tokenizer:
        return {"assistant_model": model}
    _translate_without_pruning(main, draft)
    return {"assistant_model": model, "tokenizer": main.tokenizer, "assistant_tokenizer": tokenizer}


def guesser(draft: Draft, values: Mapping[str, Json], cancelled: Event) -> DraftGuesser | None:
    """The draft for our own loop, which checks its guesses by the fast step; None where only the library can work with it."""
    if draft.reader is None:
        return None
    schedule, threshold = str(values["num_assistant_tokens_schedule"]), float(values["assistant_confidence_threshold"])
    most = _length(draft, values)
    return DraftGuesser(draft.reader, draft.name, most, schedule, threshold, draft.chances, cancelled)


def _length(draft: Draft, values: Mapping[str, Json]) -> int:
    wanted = int(values["num_assistant_tokens"])
    if values["num_assistant_tokens_schedule"] != "heuristic" or not draft.grown or draft.grown[0] != wanted:
        return wanted
    return draft.grown[1]


def remember(draft: Draft, values: Mapping[str, Json]) -> None:
    """Keep the draft length that the "heuristic" schedule has found, for the next run with the same setting."""
    if values["num_assistant_tokens_schedule"] == "heuristic":
        reached: Any = draft.loaded.model.generation_config
        draft.grown = (int(values["num_assistant_tokens"]), int(reached.num_assistant_tokens))


def _translate_without_pruning(main: LoadedModel, draft: Draft) -> None:
    """Fill the library's cache of vocabulary maps first: left to itself it replaces the draft's head and embeddings for good."""
    from transformers.generation.candidate_generator import AssistantVocabTranslatorCache

    model: Any = draft.loaded.model
    AssistantVocabTranslatorCache.get_translator(
        main.tokenizer, draft.loaded.tokenizer, main.facts.vocab_size, model, assistant_prune_lm_head=False
    )


@contextmanager
def drafting(main: Any, library: Mapping[str, Any], cancelled: Event) -> Iterator[None]:
    """While the library's assisted loop runs: Stop reaches the draft between two tokens, a foreign draft gets no token ids of the
    main model, and early exit can't leave the main model short of layers."""
    assistant, tokenizer = library.get("assistant_model"), library.get("assistant_tokenizer")
    layers = main.config.num_hidden_layers

    def stop(*_: Any) -> None:
        if cancelled.is_set():
            raise Cancelled

    hook = (main if assistant is None else assistant).register_forward_pre_hook(stop)
    if tokenizer is not None:
        main._get_candidate_generator = _for_foreign(main, tokenizer)  # noqa: SLF001  (the library has no other door)
    try:
        yield
    finally:
        hook.remove()
        main.config.num_hidden_layers = layers
        vars(main).pop("_get_candidate_generator", None)


def _for_foreign(main: Any, tokenizer: Any) -> Any:
    stock = main._get_candidate_generator  # noqa: SLF001

    def build(*, generation_config: GenerationConfig, logits_processor: Any, **rest: Any) -> Any:
        own = type(logits_processor)()
        return stock(generation_config=_without_ids(generation_config, tokenizer), logits_processor=own, **rest)

    return build


def _without_ids(config: GenerationConfig, tokenizer: Any) -> Any:
    plain: Any = copy.deepcopy(config)
    for name in OWN_TOKENS:
        setattr(plain, name, None)
    plain.eos_token_id = tokenizer.eos_token_id
    plain.pad_token_id = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    plain.bos_token_id = tokenizer.bos_token_id
    return plain
