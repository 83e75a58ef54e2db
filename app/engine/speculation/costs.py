"""What checking several tokens in one step costs on this machine, and whether guessing them pays.

A step reads the weights once for all its rows, so that a right guess is cheaper than a step of its own, and a wrong one is work for
nothing. How much cheaper is measured when the model is loaded, as a ratio of steps next to each other; what a step takes in seconds changes
with whatever else the machine does, and every step tells it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHARING = 4
"""Rows that share the reading of a weight (TILE in weights.c): a step with more reads it again."""
REMEMBERED = 9
"""Steps whose median counts: a machine with other work has outliers."""
GAIN = 1.05
"""Guessing has to be so much quicker than not guessing; less is noise."""
WEIGHT = 1 / 12
"""Of the newest ratio of two steps in what is known of it."""
_HIGHEST = 1.5
"""A step with several rows takes at most so many times what they would take one by one; more was something else's doing."""


@dataclass(eq=False)
class Costs:
    """``shape``: how many steps with one row a step takes as long as, by its number of rows."""

    _shape: dict[int, float] = field(default_factory=lambda: {1: 1.0, SHARING: float(SHARING)})
    _paces: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _last: tuple[int, float] | None = None

    def learn(self, rounds: Sequence[Mapping[int, float]]) -> None:
        """Seconds by number of rows, those of a round measured one after the other; each has 1 and SHARING."""
        self._shape = {rows: median(one[rows] / one[1] for one in rounds) for rows in rounds[0]}
        self._paces.clear()
        self._paces.extend(one[1] for one in rounds)
        self._last = None

    def took(self, rows: int, seconds: float) -> None:
        """A step with so many rows is over."""
        if self._last:
            self._compare(*self._last, rows, seconds)
        self._last = (rows, seconds)
        self._paces.append(seconds / self.shape(rows))

    def _compare(self, rows: int, seconds: float, next_rows: int, next_seconds: float) -> None:
        """Two steps next to each other, one of them with a single row, tell a ratio that the machine's pace isn't in."""
        many, ratio = (next_rows, next_seconds / seconds) if rows == 1 else (rows, seconds / next_seconds)
        if min(rows, next_rows) == 1 and 1 < many <= SHARING:
            before = self.shape(many)
            self._shape[many] = before + WEIGHT * (min(max(ratio, 1.0), _HIGHEST * many) - before)

    @property
    def pace(self) -> float:
        """Seconds of a step with one row just now."""
        return median(self._paces)

    def shape(self, rows: int) -> float:
        """At most SHARING rows by measurement, more from their parts."""
        whole, rest = divmod(rows, SHARING)
        return whole * self._part(SHARING) + (self._part(rest) if rest else 0.0)

    def _part(self, rows: int) -> float:
        if rows in self._shape:
            return self._shape[rows]
        below, above = max(n for n in self._shape if n < rows), min(n for n in self._shape if n > rows)
        share = (rows - below) / (above - below)
        return self._shape[below] * (1 - share) + self._shape[above] * share

    def of(self, rows: int) -> float:
        """Seconds to expect of a step."""
        return self.pace * self.shape(rows)

    def per_token(self, chance: float, count: int, each: float = 0.0) -> float:
        """Seconds for a token where so many are guessed in every step, each right with this ``chance`` if those before it were.
        ``each``: seconds that finding one guess takes."""
        return (self.of(count + 1) + count * each) / expected(chance, count)

    def best(self, chance: float, most: int, each: float = 0.0) -> int:
        """How many tokens to guess, at most ``most``; 0 where guessing would lose."""
        times = [self.per_token(chance, count, each) for count in range(most + 1)]
        best = min(range(len(times)), key=times.__getitem__)
        return best if times[0] >= GAIN * times[best] else 0


def expected(chance: float, count: int) -> float:
    """Tokens that a step with ``count`` guesses yields on average: its own, and each guess up to the first wrong one."""
    return sum(chance**right for right in range(count + 1))
