"""One step's choice: what generate prepared acts on the model's logits, and a token is taken or drawn for each sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from transformers import UnbatchedClassifierFreeGuidanceLogitsProcessor

from app.engine import sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList


@dataclass(frozen=True, slots=True)
class Prepared:
    """What generate prepared for this run, for reading back: config, processors in order, criteria, prompt length in tokens."""

    config: GenerationConfig
    processors: LogitsProcessorList
    criteria: StoppingCriteriaList
    prompt_length: int


class Observer(Protocol):
    """Sees each step of our own loop: the trace. ``stage`` comes after each processor, in order.

    ``logits`` and ``scores`` are float32 [batch, vocabulary] and belong to the loop: copy what is kept.
    """

    def outputs(self, outputs: Any) -> None:
        """The model's whole output of this step."""

    def begin(self, logits: torch.Tensor) -> None:
        """The logits as the model gave them."""

    def stage(self, name: str, scores: torch.Tensor) -> None:
        """What the processor of this class left."""

    def chosen(self, scores: torch.Tensor, tokens: list[int], draws: list[float]) -> None:
        """The step's tokens, and the draws that picked them (none when greedy)."""


@dataclass
class Follow:
    """Goes along ``ids``, the new tokens of a reply, whatever is chosen; ``chosen`` has what would have been taken at each."""

    ids: Sequence[int] = ()
    chosen: list[int] = field(default_factory=list)

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """The next of the ids in place of the one chosen, int64 [1]."""
        self.chosen.append(int(tokens[0]))
        return tokens.new_tensor([self.ids[len(self.chosen) - 1]])


def choose(
    input_ids: torch.Tensor,
    logits: torch.Tensor,
    prepared: Prepared,
    sources: Sequence[torch.Generator],
    observer: Observer | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The next token of each of ``input_ids`` [sequences, tokens], int64 [sequences], and the processed scores, like ``logits`` float32
    [sequences, vocabulary]. Without ``sources`` of random numbers the likeliest. Raises RunFailed when nothing can be chosen."""
    import torch

    if observer:
        observer.begin(logits)
    scores = logits
    for processor in prepared.processors:
        scores = processor(input_ids, scores)
        if observer:
            observer.stage(type(processor).__name__, scores)
    sampling.check(scores, logits, input_ids.shape[1] - prepared.prompt_length + 1)
    if sources:
        numbers = sampling.draws(sources)
        picked = [sampling.pick(row, draw) for row, draw in zip(scores, numbers, strict=True)]
    else:
        numbers, picked = [], scores.argmax(dim=-1).tolist()
    if observer:
        observer.chosen(scores, picked, numbers)
    return torch.tensor(picked, device=input_ids.device), scores


def guided(prepared: Prepared) -> bool:
    """Whether a text is read with the model between two steps, which is no small work."""
    return any(
        isinstance(processor, UnbatchedClassifierFreeGuidanceLogitsProcessor) for processor in prepared.processors
    )
