"""A grid of settings over one reply: the requests of its cells, all with the reply's own prompt and random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from app.errors import RefusedInput
from app.parameters.resolve import resolve
from app.parameters.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.conversation import Json
    from app.insight.recorded import Recorded
    from app.models.facts import ModelFacts

MOST = 16
"""Cells of a grid."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting: what it changes about the reply, and the whole request."""

    changes: Mapping[str, Json]
    requested: Mapping[str, Json]


def grid(recorded: Recorded, sweeps: Mapping[str, Sequence[Json]], facts: ModelFacts | None) -> tuple[Cell, ...]:
    """Every combination of the swept values, at most ``MOST``; all cells have the reply's seed unless ``seed`` is swept.

    Raises RefusedInput for no or too many cells, BadParameter for a value that can't be used: before anything runs.
    """
    if not sweeps or not all(sweeps.values()):
        raise RefusedInput("Give at least one parameter with at least one value.")
    combinations = list(product(*sweeps.values()))
    if len(combinations) > MOST:
        raise RefusedInput(f"These are {len(combinations)} combinations; a grid has {MOST} cells at most.")
    cells = []
    for values in combinations:
        changes = dict(zip(sweeps, values, strict=True))
        requested = {**recorded.request({}), **changes} if "seed" in changes else recorded.request(changes)
        wanted = {name: value for name, value in requested.items() if value is not None}
        resolve(validate(wanted, facts), facts)
        cells.append(Cell(changes, wanted))
    return tuple(cells)
