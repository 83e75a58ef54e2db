"""Guessing with a smaller model that shares the tokenizer (Leviathan et al. 2023, arXiv:2211.17192), by its own fast step.

It proposes what it holds likeliest; the main model chooses as it would have without it, so the text is the main model's to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from app.engine.fast.replies import MOST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    import torch

    from app.engine.speculation.plan import Chances
    from app.engine.speculation.reader import DraftReader


@dataclass(eq=False)
class DraftGuesser:
    """``threshold``: the draft stops when its probability for the next token is below it (assistant_confidence_threshold). ``most`` tokens
    at a time, by ``schedule`` (num_assistant_tokens and its schedule). ``chances``: how often this draft is right."""

    reader: DraftReader
    name: str
    most: int
    schedule: str
    threshold: float
    chances: Chances
    cancelled: Event
    free: bool = False
    _wanted: list[int] = field(default_factory=list)
    _behind: int = 0

    @property
    def each(self) -> float:
        """Seconds that a token of the draft takes just now."""
        return self.reader.share * self.reader.costs.pace

    @property
    def beginning(self) -> float:
        """Seconds until the draft has read what it must before it can guess; what one step holds is part of guessing."""
        return self._behind * self.reader.reading * self.reader.costs.pace if self._behind > MOST else 0.0

    def read(self, ids: Sequence[int]) -> int:
        """The text has come to ``ids``. All of a draft's guesses are of one kind."""
        self._wanted = list(ids)
        self._behind = self.reader.behind(self._wanted)
        return 1

    def guess(self, _kind: int, count: int) -> list[int]:
        """At most so many tokens, fewer where the draft isn't sure. Raises Cancelled."""
        begun = perf_counter()
        logits, beginning = self.reader.catch_up(self._wanted, self.cancelled), self._behind > MOST
        if beginning:
            self.reader.has_read(self._behind, perf_counter() - begun)
            begun = perf_counter()
        found = self._chain(logits, count)
        self.reader.has_guessed(len(found) - beginning, perf_counter() - begun)
        return found

    def _chain(self, logits: torch.Tensor, count: int) -> list[int]:
        """The likeliest token behind ``logits`` [vocabulary], the likeliest behind that, and so on."""
        found = [int(logits.argmax())]
        while len(found) < count:
            logits = self.reader.feed(found[-1:], self.cancelled)
            best = int(logits.argmax())
            if float(logits.softmax(-1)[best]) < self.threshold:
                break
            found.append(best)
        return found

    def end(self) -> None:
        """What the draft has read stays: the conversation may go on."""
