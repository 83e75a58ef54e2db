"""What the model thinks of a given text: one pass over its ids in chunks, recorded token by token like a reply's trace.

The first token has nothing in front of it that could predict it, so the record begins with the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from app.engine.trace import Trace
from app.engine.tracer import Tracer
from app.errors import Cancelled, RefusedInput

if TYPE_CHECKING:
    from app.errors import FaderError
    from app.models.facts import ModelFacts
    from app.models.loading import LoadedModel

ALTERNATIVES = 20
"""Most probable tokens kept beside each token of the text."""


class MadeWay(Exception):
    """Somebody waits: the question stands behind them and goes on later."""


@dataclass(eq=False)
class Question:
    """Something to be computed with the loaded model in its thread; ``finished`` is set when it is over, ``error`` says why it failed.

    ``makes_way``: it may raise ``MadeWay``, and wants to when anybody waits who doesn't do so too.
    """

    makes_way: ClassVar[bool] = False
    finished: Event = field(default_factory=Event)
    cancelled: Event = field(default_factory=Event)
    error: FaderError | None = None

    def answer(self, loaded: LoadedModel, chunk: int) -> None:
        """Compute it (engine only), reading at most ``chunk`` tokens at a time. May raise anything."""
        raise NotImplementedError


@dataclass(eq=False)
class ScoreJob(Question):
    """A scoring of ``ids``: in the end it has a ``trace`` of all tokens but the first. ``done``: tokens read so far."""

    ids: tuple[int, ...] = ()
    done: int = 0
    trace: Trace | None = None

    def answer(self, loaded: LoadedModel, chunk: int) -> None:
        """Score the text."""
        self.trace = score(self, loaded, chunk)


def check(ids: tuple[int, ...], facts: ModelFacts) -> None:
    """Raise RefusedInput for what can't be scored: too short, longer than the context, or a model that doesn't read that way."""
    if facts.is_encoder_decoder:
        raise RefusedInput("A model with a separate encoder gives no probabilities to a text that it reads.")
    if len(ids) < 2:
        raise RefusedInput("At least two tokens are needed: the first has nothing before it that could predict it.")
    if len(ids) > facts.context_length:
        raise RefusedInput(
            f"The text has {len(ids):,} tokens and the model reads {facts.context_length:,} at most. Shorten it."
        )


def score(job: ScoreJob, loaded: LoadedModel, chunk: int) -> Trace:
    """Read the job's ids in chunks of that many tokens. Raises RefusedInput (``check``), Cancelled, or what the model raises."""
    import torch

    check(job.ids, loaded.facts)
    model: Any = loaded.model
    ids = torch.tensor([job.ids], device=model.device)
    cache: dict[str, Any] = {}
    parts: list[Trace] = []
    with torch.inference_mode():
        for start in range(0, len(job.ids) - 1, chunk):
            if job.cancelled.is_set():
                raise Cancelled
            end = min(start + chunk, len(job.ids) - 1)
            outputs = model(input_ids=ids[:, start:end], use_cache=True, return_dict=True, **cache)
            name = "cache" if "cache" in outputs else "past_key_values"
            cache = {name: outputs[name]}
            parts.append(_record(outputs.logits[0].float(), job.ids[start + 1 : end + 1]))
            job.done = end + 1
    return joined(parts)


def _record(logits: Any, following: tuple[int, ...]) -> Trace:
    """A trace of one chunk. ``logits``: float32 [tokens, vocabulary], each row predicting one of ``following``."""
    tracer = Tracer(ALTERNATIVES, count=len(following))
    tracer.begin(logits)
    tracer.chosen(logits, list(following), [])
    return joined([tracer.trace(row, 1) for row in range(len(following))])


def joined(parts: list[Any]) -> Trace:
    """Traces without stages, one behind the other."""
    first: Trace = parts[0]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name, value in vars(first).items()
        if isinstance(value, np.ndarray)
    }
    return Trace(first.stages, first.vocabulary, **arrays)
