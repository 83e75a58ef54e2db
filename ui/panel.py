"""What the page asks of the parameters panel (ui/controls.py), whoever builds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gradio.components import Component

from app.conversation import Conversation, Json


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

    def preset(self, values: Sequence[Any]) -> str:
        """The name of the preset that they began with, if any."""

    def shown(self, conversation: Conversation) -> Sequence[Any]:
        """A value or update for each of ``outputs``, so that the controls show the conversation's parameters as set and no others.

        Later changes are kept with it; one without an id is new.
        """

    def fresh(self) -> Conversation:
        """A new conversation (without an id) with the parameters that one starts with."""
