"""What the engine knows of how single tokens are decoded. Imports nothing heavy: the page is there before torch is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.conversation import FAST
from app.engine.speculation.gains import LibraryGains
from app.engine.speculation.plan import Chances

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.engine.fast.step import FastStep


@dataclass(frozen=True, slots=True)
class Decoding:
    """How single tokens are decoded: by ``step``, or by the library because of ``reason``. ``exact_together``: several replies in one step
    get the very numbers that each would get alone. ``chances``: how often prompt lookup guesses right with this model; ``gains``: what
    guessing gains where the library's loop does it."""

    step: FastStep | None = None
    reason: str | None = "the fast step is off"
    exact_together: bool = False
    chances: Chances = field(default_factory=Chances)
    gains: LibraryGains = field(default_factory=LibraryGains)

    def pace(self, model: Any) -> float:
        """Seconds of a token that nobody guessed."""
        return self.step.replies.costs.pace if self.step else self.gains.pace(model)


@dataclass(eq=False)
class Trial:
    """Whether the fast step serves a model. It is tried once, by ``start``, which takes most of a second: right after the load where nobody
    waits, else behind the first token of a reply, which comes from reading the prompt. ``known``: what is known so far, for any thread."""

    start: Callable[[], Decoding] | None = None
    known: Decoding = field(default_factory=Decoding)

    @property
    def pending(self) -> bool:
        """Whether it is still to be tried."""
        return self.start is not None

    def result(self) -> Decoding:
        """How it ended. Only for the engine's thread."""
        if self.start:
            start, self.start = self.start, None
            self.known = start()
        return self.known


def told(reason: str | None) -> str:
    """Who decoded, as a reply's figures say it."""
    return FAST if reason is None else f"library ({reason})"
