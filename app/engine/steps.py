"""How the decode loop gets from one token to the next outputs: through the library's forward, or through the fast step."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from app.engine.prefix_cache import can_reuse
from app.engine.threads import all_threads, working

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from transformers import GenerationConfig

    from app.engine.fast.step import FastStep
    from app.engine.speculation.plan import Plan


class Steps(Protocol):
    """One reply's way of stepping."""

    def after(self, outputs: Any) -> None:
        """The outputs of the last forward have been read."""

    def next(self, input_ids: torch.Tensor) -> Any:
        """The outputs for the last of ``input_ids`` [sequences, tokens]; ``logits`` is [sequences, 1, vocabulary]."""

    def end(self) -> None:
        """The reply is over."""


@dataclass
class LibrarySteps:
    """The model's own forward (compiled or not) with what generate keeps from step to step. ``took`` is told the seconds from one token to
    the next."""

    model: Any
    forward: Any
    kwargs: dict[str, Any]
    threads: int = field(default_factory=all_threads)
    took: Callable[[float], None] | None = None
    _before: float | None = None

    def after(self, outputs: Any) -> None:
        """Carry mask, positions and cache on."""
        self.kwargs = self.model._update_model_kwargs_for_generation(  # noqa: SLF001
            outputs, self.kwargs, is_encoder_decoder=self.model.config.is_encoder_decoder
        )

    def next(self, input_ids: torch.Tensor) -> Any:
        """One forward."""
        self._tell(perf_counter())
        step = self.model.prepare_inputs_for_generation(
            input_ids, next_sequence_length=1 if self.kwargs.get("use_cache") else None, **self.kwargs
        )
        with working(self.threads):
            return self.forward(**step, return_dict=True)

    def _tell(self, now: float) -> None:
        if self.took and self._before is not None:
            self.took(now - self._before)
        self._before = now

    def end(self) -> None:
        """Nothing is held."""


@dataclass
class FastSteps:
    """The fast step; it takes the prefilled ``cache`` over at the first token it computes. What the ``plan`` guesses is checked in the
    same step, and logits behind a right guess are at hand when the loop comes to it: chosen is from the same numbers either way."""

    step: FastStep
    cache: Any
    plan: Plan
    _checked: list[torch.Tensor] = field(default_factory=list)

    def after(self, outputs: Any) -> None:
        """Nothing to carry."""

    def next(self, input_ids: torch.Tensor) -> Any:
        """One token, and those that are guessed to come behind it."""
        ids = input_ids[0].tolist()
        guessed_right = self.plan.arrived(ids)
        if guessed_right and self._checked:
            self.step.replies.length += 1
        else:
            self._checked = self._compute(ids, guess=not guessed_right)
        return SimpleNamespace(logits=self._checked.pop(0)[None, None])

    def _compute(self, ids: list[int], *, guess: bool) -> list[torch.Tensor]:
        if self.cache is not None:
            self.step.begin(self.cache)
            self.cache = None
        guessed = self.plan.next(ids) if guess else []
        return list(self.step.replies.follow([ids[-1], *([] if self.plan.dry else guessed)]))

    def end(self) -> None:
        """Give keys and values back."""
        self.plan.guesser.end()
        self.step.end()


def against_fast(model: Any, config: GenerationConfig, kwargs: dict[str, Any], count: int) -> str | None:
    """What keeps one run from the fast step; None when nothing does.

    A forward that is replaced or listened to has to be called: the fast step would pass it by.
    """
    mask = kwargs.get("attention_mask")
    reasons = {
        "several replies at once": count > 1,
        "this kind of cache": not kwargs.get("use_cache") or not can_reuse(kwargs.get("cache")),
        "the model's inside was asked for": bool(config.output_attentions or config.output_hidden_states),
        "guidance": config.guidance_scale not in (None, 1),
        "its forward is watched": bool("forward" in vars(model) or model._forward_hooks or model._forward_pre_hooks),  # noqa: SLF001
        "padding in the prompt": mask is not None and not bool(mask.all()),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
