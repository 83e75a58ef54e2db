"""Where a reply stood in its batch, step by step: all that its arithmetic depends on besides itself.

A product with several rows may be summed in another order than one with a single row, and which order depends on the number of rows and
on a row's place among them, not on what the others hold. So a reply is repeated to the bit by computing it at the same places again, with
copies of itself around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.conversation import Json

Places: TypeAlias = "tuple[Place, ...]"
"""By rising ``step``; empty for a reply that was computed alone."""


@dataclass(frozen=True, slots=True)
class Place:
    """From the new token ``step`` on (the first, number 0, still comes from the prompt): the place, from 0, among so many rows."""

    step: int
    rows: int
    place: int


def moved(places: Places, now: Place) -> Places:
    """The places with one more, unless nothing has changed."""
    if places and (places[-1].rows, places[-1].place) == (now.rows, now.place):
        return places
    return (*places, now)


def as_json(places: Places) -> Json:
    """``[step, rows, place]`` of each."""
    return [[p.step, p.rows, p.place] for p in places]


def from_json(stored: Sequence[Sequence[int]] | None) -> Places:
    """What ``as_json`` made."""
    return tuple(Place(*numbers) for numbers in stored or ())
