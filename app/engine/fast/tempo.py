"""How many threads a step is worth while a reply is being written: what else the machine has to do at that moment decides.

A step's threads wait for each other many times, so that one of them losing its core holds all of them up: with a browser, a server and
a reader on the same few cores fewer threads are quicker. How many are quickest on a quiet machine (``proof``) doesn't tell; that is tried
now and then, for a few steps. It changes no bit of what is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

SPAN = 8
"""Steps that are looked at together."""
EVERY = 64
"""Steps after which another number of threads is tried again."""
GAIN = 0.94
"""So much of the time before, or less, makes a change worthwhile; less than that is noise."""


@dataclass(eq=False)
class Tempo:
    """``threads`` is the number to take for the next step; tell it the seconds of each step with ``took``."""

    most: int
    threads: int
    _times: list[float] = field(default_factory=list)
    _settled: tuple[int, float] | None = None
    _fewer: bool = True
    _rest: int = 0

    def took(self, seconds: float) -> None:
        """A step with ``threads`` is over."""
        if self.most == 1:
            return
        self._times.append(seconds)
        self._rest -= 1
        if len(self._times) < SPAN:
            return
        typical, self._times = median(self._times), []
        if self._settled is None:
            if self._rest <= 0:
                self._try_another(typical)
        else:
            self._judge(typical)

    def _try_another(self, typical: float) -> None:
        ladder = sorted({1, max(1, self.most // 2), self.most - 1, self.most, self.threads})
        place = ladder.index(self.threads)
        if (self._fewer and place == 0) or (not self._fewer and place == len(ladder) - 1):
            self._fewer = not self._fewer
        self._settled = (self.threads, typical)
        self.threads = ladder[place - 1 if self._fewer else place + 1]

    def _judge(self, typical: float) -> None:
        assert self._settled is not None  # noqa: S101  (there is one while another number is tried)
        before, seconds = self._settled
        self._settled = None
        if typical <= GAIN * seconds:  # perhaps one more step the same way is better still
            self._rest = 0
            return
        self.threads, self._fewer, self._rest = before, not self._fewer, EVERY
