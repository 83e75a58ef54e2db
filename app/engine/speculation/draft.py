"""Guessing with a smaller model that shares the tokenizer (Leviathan et al. 2023, arXiv:2211.17192), by its own fast step.

It proposes what it holds likeliest; the main model chooses as it would have without it, so the text is the main model's to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.fast.replies import MOST
from app.engine.threads import all_threads, working
from app.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    import torch

    from app.engine.fast.step import FastStep
    from app.engine.speculation.plan import Chances

CHUNK = 256
"""Tokens of the prompt that the draft reads between two looks at Stop."""


@dataclass(eq=False)
class DraftGuesser:
    """``threshold``: the draft stops when its probability for the next token is below it (assistant_confidence_threshold). ``most`` tokens
    at a time, by ``schedule`` (num_assistant_tokens and its schedule). ``chances``: how often this draft is right."""

    model: Any
    step: FastStep
    name: str
    most: int
    schedule: str
    threshold: float
    chances: Chances
    cancelled: Event
    free: bool = False
    _threads: int = field(default_factory=all_threads)
    _ids: list[int] = field(default_factory=list)
    _wanted: list[int] = field(default_factory=list)

    @property
    def each(self) -> float:
        """Seconds that a token of the draft takes."""
        return self.step.replies.costs.of(1)

    def read(self, ids: Sequence[int]) -> int:
        """The text has come to ``ids``. All of a draft's guesses are of one kind."""
        self._wanted = list(ids)
        return 1

    def guess(self, _kind: int, count: int) -> list[int]:
        """At most so many tokens, fewer where the draft isn't sure. Raises Cancelled."""
        logits, found = self._caught_up(), list[int]()
        while True:
            best = int(logits.argmax())
            if found and float(logits.softmax(-1)[best]) < self.threshold:
                return found
            found.append(best)
            if len(found) == count:
                return found
            logits = self._feed([best])

    def _caught_up(self) -> torch.Tensor:
        """The draft's logits [vocabulary] behind the text: it forgets guesses that were wrong and reads what is new."""
        if not self._ids:
            self._read_prompt(self._wanted[:-1])
        same = next((i for i, (a, b) in enumerate(zip(self._ids, self._wanted, strict=False)) if a != b), None)
        same = min(len(self._ids), len(self._wanted) - 1) if same is None else same
        del self._ids[same:]
        self.step.replies.length = same
        return self._feed(self._wanted[same:])

    def _read_prompt(self, ids: list[int]) -> None:
        import torch
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        with torch.no_grad(), working(self._threads):
            for start in range(0, len(ids), CHUNK):
                if self.cancelled.is_set():
                    raise Cancelled
                self.model(torch.tensor([ids[start : start + CHUNK]]), cache=cache, logits_to_keep=1)
        self.step.begin(cache)
        self._ids = list(ids)

    def _feed(self, tokens: list[int]) -> torch.Tensor:
        replies = self.step.replies
        for start in range(0, len(tokens), MOST):
            part = tokens[start : start + MOST]
            logits = replies.follow(part)
            replies.length += len(part) - 1
        self._ids += tokens
        return logits[-1]

    def end(self) -> None:
        """Give the draft's keys and values back."""
        self.step.end()
