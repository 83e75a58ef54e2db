"""The draft model's own reading of the text, kept from reply to reply: the next turn of a conversation is read from where it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.fast.replies import MOST
from app.engine.speculation.costs import WEIGHT
from app.engine.threads import all_threads, working
from app.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    import torch

    from app.engine.fast.step import FastStep
    from app.engine.speculation.costs import Costs

CHUNK = 256
"""Tokens of a prompt that are read between two looks at Stop."""
_BY_CHUNKS = 0.6
"""What a token read in a chunk takes, in tokens read as rows of steps."""
_ODD = 4.0
"""A measurement so many times what was known is something else's doing."""


@dataclass(eq=False)
class DraftReader:
    """``costs``: the main model's. ``share``: what guessing one token takes, in steps of the main model at the same moment, for both slow
    down together when the machine has other work: as the trial measured it, and kept up to date."""

    model: Any
    step: FastStep
    costs: Costs
    share: float
    _threads: int = field(default_factory=all_threads)
    _ids: list[int] = field(default_factory=list)
    _reading: float | None = None

    @property
    def reading(self) -> float:
        """What reading one token takes, in steps of the main model."""
        return self._reading or self.share * self.step.replies.costs.shape(MOST) / MOST

    def behind(self, ids: Sequence[int]) -> int:
        """How many tokens of ``ids`` it hasn't read; what it has read otherwise is forgotten."""
        if self._ids != ids[: len(self._ids)]:
            same = next(place for place, (a, b) in enumerate(zip(self._ids, (*ids, None), strict=False)) if a != b)
            self._forget(same)
        return len(ids) - len(self._ids)

    def _forget(self, length: int) -> None:
        del self._ids[length:]
        self.step.replies.length = length

    def catch_up(self, ids: Sequence[int], cancelled: Event) -> torch.Tensor:
        """Read ``ids`` to their end; logits [vocabulary] behind them. Raises Cancelled."""
        new = self.behind(ids)
        if not self._ids or (new > MOST and len(ids) * _BY_CHUNKS < new):
            self._read_anew(list(ids[:-1]), cancelled)
        elif not new:
            self._forget(len(ids) - 1)
        return self.feed(ids[len(self._ids) :], cancelled)

    def _read_anew(self, ids: list[int], cancelled: Event) -> None:
        import torch
        from transformers import DynamicCache

        self.free()
        cache = DynamicCache(config=self.model.config) if ids else DynamicCache()
        with torch.no_grad(), working(self._threads):
            for start in range(0, len(ids), CHUNK):
                if cancelled.is_set():
                    raise Cancelled
                self.model(torch.tensor([ids[start : start + CHUNK]]), cache=cache, logits_to_keep=1)
        self.step.begin(cache)
        self._ids = ids

    def feed(self, tokens: Sequence[int], cancelled: Event) -> torch.Tensor:
        """Read tokens behind what was read; logits [vocabulary] behind the last. Raises Cancelled."""
        replies = self.step.replies
        for start in range(0, len(tokens), MOST):
            if cancelled.is_set():
                raise Cancelled
            part = tokens[start : start + MOST]
            logits = replies.follow(part)
            replies.length += len(part) - 1
            self._ids += part
        return logits[-1]

    def has_read(self, tokens: int, seconds: float) -> None:
        """So many tokens were read."""
        self._reading = seconds / tokens / self.costs.pace

    def has_guessed(self, tokens: int, seconds: float) -> None:
        """So many tokens were guessed."""
        seen = seconds / tokens / self.costs.pace if tokens else self.share
        self.share += WEIGHT * (min(seen, _ODD * self.share) - self.share)

    def free(self) -> None:
        """Give keys and values back."""
        self._ids = []
        self.step.end()
