"""The controls for how a model is loaded, made from ``app.models.choices``; closed until somebody looks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from app.chat import Chat
from app.conversation import Json
from app.errors import FaderError
from app.models import choices, remembered
from app.models.catalogue import resolve
from app.models.choices import ROWS, TAKES, Choice, Takes
from app.models.options import LoadOptions
from app.models.schemes import settled


class LoadChoices:
    """A control a row, in the order of the table. ``inputs`` are their values as ``options`` takes them."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        with gr.Accordion("How it is loaded", open=False, elem_id="load-options") as self.folded:
            self.inputs: list[Component] = [_control(row) for row in ROWS]
            self.back = gr.Button("Back to the defaults", size="sm", min_width=0, elem_id="load-defaults")

    def options(self, values: Sequence[Any]) -> LoadOptions:
        """What the controls say. Raises BadParameter for what this machine can't do."""
        return choices.changed(LoadOptions(), {row.name: value for row, value in zip(ROWS, values, strict=True)})

    def chosen(self, name: str | None) -> list[Any]:
        """The controls as they were chosen for a model, or at the defaults for one that isn't known."""
        try:
            options = remembered.options_for(self._chat.settings.home, resolve((name or "").strip()))
        except FaderError:
            options = LoadOptions()
        return self.shown(options)

    def shown(self, options: LoadOptions, *, probe: bool = False) -> list[Any]:
        """An update for each control. ``probe``: look at the machine for what it can do, which imports torch."""
        return [_update(row, options, probe=probe) for row in ROWS]

    def defaults(self) -> list[Any]:
        """The controls as they are when nothing was chosen."""
        return self.shown(LoadOptions(), probe=True)

    def fitting(self, *values: Any) -> list[Any]:
        """The same values, with what can be had on this machine and beside each other."""
        try:
            return self.shown(self.options(values), probe=True)
        except FaderError:
            return [gr.skip()] * len(ROWS)

    def loaded_differently(self, name: str, options: LoadOptions, takes: Takes) -> str:
        """A sentence on what differs from the model in memory, where it is the same model, and what it takes; empty where nothing does."""
        loaded = self._chat.engine.loaded
        if loaded is None or not loaded.facts.load_options or self._chat.engine.status().name != name:
            return ""
        before, after = choices.from_json(loaded.facts.load_options), settled(options, resolve(name))
        rows = [f"{row.label}: {_value(row, before)}" for row in choices.differences(before, after)]
        return f"In memory it is loaded otherwise ({', '.join(rows)}); the change takes {TAKES[takes]}." if rows else ""


def _value(row: Choice, options: LoadOptions) -> str:
    return row.label_of(choices.value_of(options, row.name))


def _control(row: Choice) -> Component:
    shared: dict[str, Any] = {"label": row.label, "elem_id": f"load-{row.name}", "info": _info(row, LoadOptions())}
    if True in row.values:
        return gr.Checkbox(value=choices.value_of(LoadOptions(), row.name), **shared)
    return gr.Dropdown(
        choices=_pairs(row, row.values), value=choices.value_of(LoadOptions(), row.name), filterable=False, **shared
    )


def _update(row: Choice, options: LoadOptions, *, probe: bool) -> Mapping[str, Any]:
    idle = choices.idle(options, row.name)
    fields: dict[str, Any] = {
        "value": choices.value_of(options, row.name),
        "interactive": not idle,
        "info": _info(row, options),
    }
    if True not in row.values:
        offered = choices.offered(row.name, options) if probe else (*row.values, fields["value"])
        fields["choices"] = _pairs(row, tuple(dict.fromkeys(offered)))
    updated: Mapping[str, Any] = gr.update(**fields)
    return updated


def _pairs(row: Choice, values: Sequence[Json]) -> list[tuple[str, Any]]:
    return [(row.label_of(value), value) for value in values]


def _info(row: Choice, options: LoadOptions) -> str:
    return choices.idle(options, row.name) or f"{row.help} Needs {choices.needs(row, options)}."
