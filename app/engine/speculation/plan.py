"""Which tokens to guess at each step of a reply, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
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


class Guesses(Protocol):
    """What a reply's figures say of the guesses in it."""

    passes: int

    @property
    def drafted_by(self) -> str | None:
        """Who guessed; None for nobody."""

    def gain(self, speed: float | None) -> float | None:
        """How many times as quick a reply with so many tokens per second was, or would have been, as without guesses."""


class Guesser(Protocol):
    """Who proposes tokens. ``free``: its guesses take no time."""

    name: str
    free: bool

    @property
    def each(self) -> float:
        """Seconds for one guess."""

    @property
    def beginning(self) -> float:
        """Seconds that the first guess takes besides, when it has to read first what was said."""

    def read(self, ids: Sequence[int]) -> int:
        """The text has come to ``ids``; returns the kind of guess that can be made now, 0 for none."""

    def guess(self, kind: int, count: int) -> list[int]:
        """At most so many tokens that may follow."""

    def end(self) -> None:
        """The reply is over."""


@dataclass(eq=False)
class Chances:
    """How often a guess of each kind comes true when those before it did; ``hope`` where nothing is known. Kept from reply to reply."""

    hope: float = HOPE
    _of: dict[int, float] = field(default_factory=dict)

    def of(self, kind: int) -> float:
        """Between 0 and 1."""
        return self._of.get(kind, self.hope)

    def saw(self, kind: int, *, right: bool) -> None:
        """One more outcome."""
        self._of[kind] = self.of(kind) + WEIGHT * (right - self.of(kind))

    def another_try(self, kind: int) -> None:
        """For a kind that has lost."""
        self._of[kind] = max(self.of(kind), self.hope)


@dataclass(eq=False)
class Plan:
    """One reply's guesses, at most ``most`` in a step. Asked once per token: was it guessed, and else, what to guess behind it.

    Also guesses that were not made are held against what came, where they are free: so a guesser that rests because it loses is back
    as soon as it would win. ``dry``: the plan of a reply that is written without guesses, to tell what they would have saved. ``grows``:
    ``most`` follows success, 2 more after a step of right guesses, 1 less after another (the library's "heuristic" schedule). ``worth``:
    how many steps without guesses would have taken as long, finding the guesses included, which is held against the pace of its moment.
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
    _missed: float = 0.0

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
        begun = perf_counter()
        self.passes += 1
        self._kind, self._guessed = self.guesser.read(ids), []
        wanted = self._wanted() if self._kind else 0
        if self._kind and (wanted or self.guesser.free):
            self._guessed = self.guesser.guess(self._kind, max(1, wanted))
        self._checked = min(wanted, len(self._guessed))
        self.worth += self.costs.shape(1 + self._checked)
        if not self.dry:
            self.worth += (perf_counter() - begun) / self.costs.pace
        return self._guessed[: self._checked]

    def _wanted(self) -> int:
        chance, each = self.chances.of(self._kind), self.guesser.each
        best = self.costs.best(chance, min(self.most, MOST), each)
        if best and self.passes % REST == 0:
            return 0  # what a step without guesses takes stays known
        if best or self.guesser.free:
            return best if self._pays_by_now(self.costs.of(1) - self.costs.per_token(chance, best, each)) else 0
        self._resting += 1
        if self._resting % REST == 0:
            self.chances.another_try(self._kind)
        return 0

    def _pays_by_now(self, saved: float) -> bool:
        """Whether the text has come so far that guesses, which save so many seconds per token, would have paid for their beginning by now:
        nobody knows how long a reply will be, and one that has come so far often goes on for as long again."""
        self._missed += saved
        if self._missed < self.guesser.beginning:
            return False
        self._missed = 0.0
        return True

    @property
    def drafted_by(self) -> str | None:
        """Who guessed; None for a dry plan."""
        return None if self.dry else self.guesser.name

    def gain(self, _speed: float | None = None) -> float | None:
        """How many times as quick the steps of this reply were (``dry``: would have been) as without guesses."""
        return self.tokens / self.worth if self.worth else None
