"""What checking several tokens in one step costs on this machine, and whether guessing them pays.

A step reads the weights once for all its rows, so that a right guess is cheaper than a step of its own, and a wrong one is work for
nothing. How much cheaper is measured, when the model is loaded and at every step from then on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

SHARING = 4
"""Rows that share the reading of a weight (TILE in weights.c): a step with more reads it again."""
REMEMBERED = 9
"""Steps whose median counts: a machine with other work has outliers."""
GAIN = 1.05
"""Guessing has to be so much quicker than not guessing; less is noise."""


@dataclass(eq=False)
class Costs:
    """Seconds of a step, by its number of rows."""

    _seen: dict[int, deque[float]] = field(default_factory=dict)

    def took(self, rows: int, seconds: float) -> None:
        """A step with so many rows is over."""
        if rows <= SHARING:
            self._seen.setdefault(rows, deque(maxlen=REMEMBERED)).append(seconds)

    def of(self, rows: int) -> float:
        """Seconds to expect, at most SHARING rows by measurement, more from their parts."""
        whole, rest = divmod(rows, SHARING)
        return whole * self._typical(SHARING) + (self._typical(rest) if rest else 0.0)

    def _typical(self, rows: int) -> float:
        if rows in self._seen:
            return median(self._seen[rows])
        below, above = max(n for n in self._seen if n < rows), min(n for n in self._seen if n > rows)
        share = (rows - below) / (above - below)
        return self._typical(below) * (1 - share) + self._typical(above) * share

    def best(self, chance: float, most: int, each: float = 0.0) -> int:
        """How many tokens to guess, at most ``most``, when each is right with this ``chance`` if those before it were; 0 where guessing
        would lose. ``each``: seconds that finding one guess takes."""
        alone = 1 / self.of(1)
        rates = [
            alone,
            *(expected(chance, count) / (self.of(count + 1) + count * each) for count in range(1, most + 1)),
        ]
        best = max(range(len(rates)), key=rates.__getitem__)
        return best if rates[best] >= GAIN * alone else 0


def expected(chance: float, count: int) -> float:
    """Tokens that a step with ``count`` guesses yields on average: its own, and each guess up to the first wrong one."""
    return sum(chance**right for right in range(count + 1))
