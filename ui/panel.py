"""What the page asks of the parameters panel (ui/controls.py), whoever builds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gradio.components import Component

from app.conversation import Json


class ParametersPanel(Protocol):
    """The controls of all generation parameters, built inside the page's column for them."""

    @property
    def inputs(self) -> Sequence[Component]:
        """The controls, in the order in which ``requested`` takes their values."""

    @property
    def outputs(self) -> Sequence[Component]:
        """The controls that ``shown`` sets."""

    def requested(self, values: Sequence[Any]) -> dict[str, Json]:
        """The parameters that are set, out of the controls' values; raises BadParameter."""

    def shown(self, parameters: Mapping[str, Json], conversation: str = "") -> Sequence[Any]:
        """A value or update for each of ``outputs``, so that the controls show these parameters as set and no others.

        ``conversation`` is the id of the conversation that later changes are kept with; none for a new one.
        """

    def fresh(self) -> Mapping[str, Json]:
        """The parameters that a new conversation starts with."""


class NoParameters:
    """Stands in where there is no panel: nothing is set."""

    inputs: Sequence[Component] = ()
    outputs: Sequence[Component] = ()

    def requested(self, values: Sequence[Any]) -> dict[str, Json]:
        """Nothing."""
        return {}

    def shown(self, parameters: Mapping[str, Json], conversation: str = "") -> Sequence[Any]:
        """Nothing."""
        return ()

    def fresh(self) -> Mapping[str, Json]:
        """Nothing."""
        return {}
