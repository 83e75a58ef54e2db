"""A grid over one reply: the requests of its cells, all with the reply's own prompt and random numbers.

What varies is a parameter, the preset, the model, or two of these: every combination is a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from app.conversation import EMPTY
from app.errors import NotFound, RefusedInput
from app.parameters.resolve import resolve
from app.parameters.row import Group
from app.parameters.table import BY_NAME
from app.parameters.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.conversation import Json
    from app.insight.recorded import Recorded
    from app.models.facts import ModelFacts
    from app.parameters.presets import Preset

MOST = 16
"""Cells of a grid."""
PRESET, MODEL = "preset", "model"
"""What can be varied besides parameters; no parameter has such a name."""
_KEPT = (Group.LENGTH, Group.SPECIAL_TOKENS, Group.OWN)
"""What a reply was asked for in these groups holds under every preset: how long it may get, what ends it, its form."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination: what it changes about the reply, and the whole request. ``model`` None: the reply's own. ``sources``: the
    values that come from a preset."""

    changes: Mapping[str, Json]
    requested: Mapping[str, Json]
    model: str | None = None
    sources: Mapping[str, str] = EMPTY


@dataclass(frozen=True, slots=True)
class Grid:
    """The reply, the loaded model's ``facts``, and the ``presets`` by name."""

    recorded: Recorded
    facts: ModelFacts | None
    presets: Mapping[str, Preset] = EMPTY

    def cells(self, sweeps: Mapping[str, Sequence[Json]]) -> tuple[Cell, ...]:
        """Every combination of the swept values, at most ``MOST``; all cells have the reply's seed unless ``seed`` is swept.

        Raises RefusedInput for no or too many cells, BadParameter for a value that can't be used, NotFound for a preset: before
        anything runs.
        """
        if not sweeps or not all(sweeps.values()):
            raise RefusedInput("Give at least one parameter with at least one value.")
        combinations = list(product(*sweeps.values()))
        if len(combinations) > MOST:
            raise RefusedInput(f"These are {len(combinations)} combinations; a grid has {MOST} cells at most.")
        return tuple(self._cell(dict(zip(sweeps, values, strict=True))) for values in combinations)

    def _cell(self, changes: Mapping[str, Json]) -> Cell:
        moved = {name: value for name, value in changes.items() if name not in (PRESET, MODEL)}
        model = _named(changes[MODEL]) if MODEL in changes else None
        preset = self._preset(changes[PRESET]) if PRESET in changes else None
        wanted = self.recorded.request(moved, None if preset is None else {**preset.parameters, **self._kept()})
        facts = (
            self.facts if model in (None, self._own_model) else None
        )  # what another model can do is told when it is loaded
        resolve(validate(wanted, facts), facts)
        from_preset = dict.fromkeys(preset.giving(wanted), "preset") if preset else EMPTY
        return Cell(changes, wanted, model, from_preset)

    @property
    def _own_model(self) -> Json:
        return self.recorded.run.model_fingerprint.get("name")

    def _preset(self, name: Json) -> Preset:
        if name not in self.presets:
            raise NotFound(f"There is no preset “{name}”.")
        return self.presets[name]

    def _kept(self) -> dict[str, Json]:
        requested = self.recorded.run.requested
        return {name: value for name, value in requested.items() if BY_NAME[name].group in _KEPT}


def _named(name: Json) -> str:
    if not isinstance(name, str) or not name.strip():
        raise RefusedInput("Each model is named by a text: builtin, a hub id, a folder or a GGUF file.")
    return name.strip()
