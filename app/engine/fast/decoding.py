"""What the engine knows of how single tokens are decoded. Imports nothing heavy: the page is there before torch is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.conversation import FAST
from app.engine.speculation.plan import Chances

if TYPE_CHECKING:
    from app.engine.fast.step import FastStep


@dataclass(frozen=True, slots=True)
class Decoding:
    """How single tokens are decoded: by ``step``, or by the library because of ``reason``. ``exact_together``: several replies in one step
    get the very numbers that each would get alone. ``chances``: how often prompt lookup guesses right with this model."""

    step: FastStep | None = None
    reason: str | None = "the fast step is off"
    exact_together: bool = False
    chances: Chances = field(default_factory=Chances)


def told(reason: str | None) -> str:
    """Who decoded, as a reply's figures say it."""
    return FAST if reason is None else f"library ({reason})"
