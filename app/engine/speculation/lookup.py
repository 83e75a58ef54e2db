"""Guessing by looking back: what followed the last few tokens when they occurred before (prompt lookup, A. Saxena 2023; Yang et al. 2023,
"Inference with Reference", arXiv:2304.04487)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(eq=False)
class Lookup:
    """``longest``: how many last tokens are looked for, the longest stretch first; where it occurred last counts."""

    longest: int
    name: str = "prompt lookup"
    free: bool = True
    """A guess takes no time worth mentioning."""
    each: float = 0.0
    beginning: float = 0.0
    _ids: list[int] = field(default_factory=list)
    _next: dict[tuple[int, ...], int] = field(default_factory=dict)

    def read(self, ids: Sequence[int]) -> int:
        """The text has come to ``ids``, which begin as before. Returns how long the stretch is that was found again, 0 for none: guesses
        after a longer one come true more often."""
        for token in ids[len(self._ids) :]:
            for length in range(1, min(self.longest, len(self._ids)) + 1):
                self._next[tuple(self._ids[-length:])] = len(self._ids)
            self._ids.append(token)
        return next(
            (n for n in range(min(self.longest, len(self._ids)), 0, -1) if tuple(self._ids[-n:]) in self._next), 0
        )

    def guess(self, length: int, count: int) -> list[int]:
        """So many tokens that followed the stretch of this length; those of a text that repeats itself go round."""
        start, found = self._next[tuple(self._ids[-length:])], list[int]()
        period = len(self._ids) - start
        for place in range(count):
            found.append(self._ids[start + place] if place < period else found[place - period])
        return found

    def end(self) -> None:
        """Nothing is held outside."""
