"""Which tokens to guess at each step of a reply, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.speculation.costs import Costs

MOST = 15
"""Guesses of one step: with the certain token in front of them as many rows as a step takes."""
HOPE = 0.5
"""The chance of a guess of which nothing is known yet."""
WEIGHT = 1 / 12
"""Of the newest outcome in the chance of the next."""
REST = 64
"""Steps after which a guesser that isn't free, and lost, is tried again."""


class Guesser(Protocol):
    """Who proposes tokens. ``free``: its guesses take no time; else one takes ``each`` seconds."""

    name: str
    free: bool

    @property
    def each(self) -> float:
        """Seconds for one guess."""

    def read(self, ids: Sequence[int]) -> int:
        """The text has come to ``ids``; returns the kind of guess that can be made now, 0 for none."""

    def guess(self, kind: int, count: int) -> list[int]:
        """At most so many tokens that may follow."""

    def end(self) -> None:
        """The reply is over."""


@dataclass(eq=False)
class Chances:
    """How often a guess of each kind comes true when those before it did. Kept from reply to reply."""

    _of: defaultdict[int, float] = field(default_factory=lambda: defaultdict(lambda: HOPE))

    def of(self, kind: int) -> float:
        """Between 0 and 1."""
        return self._of[kind]

    def saw(self, kind: int, *, right: bool) -> None:
        """One more outcome."""
        self._of[kind] += WEIGHT * (right - self._of[kind])

    def hope(self, kind: int) -> None:
        """Give a kind that has lost another try."""
        self._of[kind] = max(self._of[kind], HOPE)


@dataclass(eq=False)
class Plan:
    """One reply's guesses, at most ``most`` in a step. Asked once per token: was it guessed, and else, what to guess behind it.

    Also guesses that were not made are held against what came, where they are free: so a guesser that rests because it loses is back
    as soon as it would win. ``dry``: the plan of a reply that is written without guesses, to tell what they would have saved. ``grows``:
    ``most`` follows success, 2 more after a step of right guesses, 1 less after another (the library's "heuristic" schedule). ``worth``:
    how many steps without guesses would have taken as long; each is held against the cost of its own moment, for a machine's pace changes.
    """

    guesser: Guesser
    costs: Costs
    chances: Chances
    most: int
    dry: bool = False
    grows: bool = False
    tokens: int = 0
    passes: int = 0
    worth: float = 0.0
    _kind: int = 0
    _guessed: list[int] = field(default_factory=list)
    _checked: int = 0
    _resting: int = 0

    def arrived(self, ids: Sequence[int]) -> bool:
        """The text has come to ``ids``: whether its last token is one that was checked already."""
        self.tokens += 1
        if not self._guessed:
            return False
        right = self._guessed.pop(0) == ids[-1]
        self.chances.saw(self._kind, right=right)
        checked, self._checked = self._checked > 0, self._checked - 1
        if checked and (not right or not self._checked):
            self._judge(all_right=right)
        if not right:
            self._guessed, self._checked = [], 0
        return right and checked

    def _judge(self, *, all_right: bool) -> None:
        if self.grows:
            self.most = self.most + 2 if all_right else max(1, self.most - 1)

    def next(self, ids: Sequence[int]) -> list[int]:
        """The tokens to check behind the last of ``ids``."""
        self.passes += 1
        self._kind, self._guessed = self.guesser.read(ids), []
        wanted = self._wanted() if self._kind else 0
        if self._kind and (wanted or self.guesser.free):
            self._guessed = self.guesser.guess(self._kind, max(1, wanted))
        self._checked = min(wanted, len(self._guessed))
        if self.dry:
            self.worth += self.costs.of(1 + self._checked) / self.costs.of(1)
        return self._guessed[: self._checked]

    def _wanted(self) -> int:
        best = self.costs.best(self.chances.of(self._kind), min(self.most, MOST), self.guesser.each)
        if best or self.guesser.free:
            return best
        self._resting += 1
        if self._resting % REST == 0:
            self.chances.hope(self._kind)
        return 0

    def took(self, seconds: float) -> None:
        """A step with the guesses of ``next`` is over, finding them included."""
        if not self.dry:
            self.worth += seconds / self.costs.of(1)

    @property
    def gain(self) -> float | None:
        """How many times as quick the steps of this reply were (``dry``: would have been) as without guesses."""
        return self.tokens / self.worth if self.worth else None
