"""The parameters panel: every row of the table as a control with its "set" switch, explained on each change, kept per conversation.

One event takes the values of all controls and answers with one JSON value that assets/parameters spreads over the page.
Whatever a control holds, the answer is a sentence beside it, never an exception.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import gradio as gr
from gradio.components import Component

from app.chat import Chat
from app.conversation import Conversation, Json
from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters.row import Group, Parameter
from ui.api_errors import sentence
from ui.controls_kinds import Fields, build_fields, limits
from ui.parameter_order import OPEN, groups
from ui.parameter_state import Answer, answer, neutralizing, view
from ui.parameter_tokens import token_text
from ui.preset_shelf import Shelf
from ui.presets_panel import EFFECTIVE, TOOLS

STATE_ON_LOAD = (
    "const tell = () => window.dispatchEvent("
    "new CustomEvent('fader-parameters', {detail: JSON.parse(props.value || 'null')}));\n"
    "watch('value', tell);"
)
CHOSEN = "() => { window.dispatchEvent(new Event('fader-parameter-chosen')); return true; }"
BRIDGE_ON_LOAD = "window.faderParameters = trigger;"


@dataclass(frozen=True, slots=True)
class Control:
    """A parameter on the page: its "set" switch and its fields."""

    row: Parameter
    switch: gr.Checkbox
    fields: Fields

    @property
    def width(self) -> int:
        """How many values it takes among the inputs."""
        return 1 + len(self.fields.components)


def build_parameters_panel(chat: Chat) -> Panel:
    """Build the panel inside the page's column for it, wired."""
    facts = chat.engine.status().facts
    with gr.Column(elem_id="parameters"):
        gr.HTML(TOOLS, elem_id="parameter-tools", js_on_load=None, apply_default_css=False)
        gr.HTML(EFFECTIVE, elem_id="effective", js_on_load=None, apply_default_css=False)
        controls = [control for group in groups() for control in _build_group(group, facts)]
        place = gr.Textbox("", elem_id="parameter-place", visible="hidden", label="Conversation")
        preset = gr.Textbox("", elem_id="parameter-preset", visible="hidden", label="Preset")
        state = gr.HTML("", elem_id="parameter-state", visible="hidden", html_template="", js_on_load=STATE_ON_LOAD)
        bridge = gr.HTML("", elem_id="parameter-bridge", visible="hidden", js_on_load=BRIDGE_ON_LOAD)
    panel = Panel(chat, controls, (place, preset), state)
    panel.wire(bridge)
    return panel


def _build_group(group: tuple[Group, list[Parameter]], facts: ModelFacts | None) -> list[Control]:
    name, rows = group
    with gr.Accordion(
        name.value, open=name in OPEN, elem_id=f"group-{name.name.lower()}", elem_classes=["parameter-group"]
    ):
        return [_build_control(row, facts) for row in rows]


def _build_control(row: Parameter, facts: ModelFacts | None) -> Control:
    with gr.Column(elem_id=f"row-{row.name}", elem_classes=["parameter", f"with-{row.control}"]):
        switch = gr.Checkbox(
            value=False,
            label=row.name,
            elem_id=f"set-{row.name}",
            container=False,
            interactive=row.control != "readonly",
        )
        fields = build_fields(row, facts)
    return Control(row, switch, fields)


class Panel:
    """Fulfils ``ui.panel.ParametersPanel``."""

    def __init__(
        self, chat: Chat, controls: Sequence[Control], about: tuple[gr.Textbox, gr.Textbox], state: gr.HTML
    ) -> None:
        self._chat = chat
        self._controls = controls
        every = [component for control in controls for component in (control.switch, *control.fields.components)]
        self.inputs: list[Component] = [*about, *every]
        self.outputs: list[Component] = [state, *about, *every]
        self._numbers = count()

    # -- what the page asks for (ui/panel.py) ----------------------------------------------------------------------------------

    def requested(self, values: Sequence[Any]) -> dict[str, Json]:
        """The parameters that are set, converted and checked; raises BadParameter for the first wrong one."""
        found = answer(self._read(values).parameters, self._facts())
        for name, why in found.problems.items():
            raise BadParameter(name, why)
        return dict(found.requested)

    def preset(self, values: Sequence[Any]) -> str:
        """The name of the preset that they began with, if any."""
        return self._read(values).preset

    def shown(self, conversation: Conversation, trouble: str = "") -> Sequence[Any]:
        """Updates of ``outputs``: its parameters set and no others, in the limits of the model that is loaded now."""
        facts, given = self._facts(), conversation.parameters
        found = self._answer(conversation)
        updates = [update for control in self._controls for update in self._shown(control, given, found, facts)]
        return [self._state(found, conversation, trouble=trouble), conversation.id, conversation.preset, *updates]

    def fresh(self) -> Conversation:
        """A new conversation with the model's default preset, or with nothing set."""
        start = Shelf(self._chat).start()
        return Conversation("", parameters=start.parameters, preset=start.name)

    # -- events ---------------------------------------------------------------------------------------------------------------

    def wire(self, bridge: gr.HTML) -> None:
        """Explain whenever assets/parameters says that a person has changed something; show what it asks for.

        Not on Gradio's own change events: those also come in the middle of an update, while half of the controls are still old.
        """
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        bridge.select(self._explained, self.inputs, self.outputs[:1], trigger_mode="multiple", **quiet)
        bridge.submit(self._asked, self.inputs, self.outputs, trigger_mode="multiple", **quiet)
        for control in self._controls:
            for component in control.fields.components:
                if isinstance(component, gr.Dropdown):
                    component.input(None, None, control.switch, js=CHOSEN, api_visibility="private")

    def _explained(self, event: gr.EventData, *values: Any) -> str:
        """A control has changed: explain, and keep what is set with its conversation."""
        try:
            return self._explanation(event, values)
        except Exception as error:  # noqa: BLE001  (Gradio would show the page an empty error)
            return json.dumps({"trouble": sentence(error), "turn": event._data.get("turn")})  # noqa: SLF001

    def _explanation(self, event: gr.EventData, values: Sequence[Any]) -> str:
        given = self._read(values)
        found = self._answer(given)
        return self._state(found, given, trouble=self._keep(given, found), turn=event._data.get("turn"))  # noqa: SLF001

    def _asked(self, event: gr.EventData, *values: Any) -> Sequence[Any]:
        """A request of the page's script: ``{"action": "show" | "neutralize" | "refresh", "parameters", "preset"}``."""
        asked: dict[str, Any] = event._data  # noqa: SLF001  (Gradio gives custom data no public name)
        wanted = self._wanted(asked, self._read(values))
        trouble = "" if asked["action"] == "refresh" else self._keep(wanted, self._answer(wanted))
        return self.shown(wanted, trouble)

    def _wanted(self, asked: Mapping[str, Any], given: Conversation) -> Conversation:
        match asked["action"]:
            case "show":
                return replace(given, parameters=dict(asked["parameters"]), preset=str(asked.get("preset") or ""))
            case "neutralize":
                return replace(given, parameters=neutralizing(self._facts()), preset="")
            case _:  # what is set stays; a new conversation with nothing set has what the model's start with
                return given if given.parameters or given.id else self.fresh()

    # -- inside ---------------------------------------------------------------------------------------------------------------

    def _facts(self) -> ModelFacts | None:
        return self._chat.engine.status().facts

    def _answer(self, given: Conversation) -> Answer:
        return answer(given.parameters, self._facts(), Shelf(self._chat).named(given.preset))

    def _read(self, values: Sequence[Any]) -> Conversation:
        """What the inputs say: the conversation's id, its preset, and the raw values of the controls that are set."""
        place, preset, *controls = values
        raw = {
            control.row.name: control.fields.read(fields) for control, is_set, fields in self._pairs(controls) if is_set
        }
        return Conversation(str(place or ""), parameters=raw, preset=str(preset or ""))

    def _pairs(self, values: Sequence[Any]) -> Iterator[tuple[Control, bool, Sequence[Any]]]:
        at = 0
        for control in self._controls:
            yield control, bool(values[at]), values[at + 1 : at + control.width]
            at += control.width

    def _keep(self, given: Conversation, found: Answer) -> str:
        """Store what is set with its conversation; a value being refused leaves the stored one alone. Returns what went wrong."""
        if not given.id:
            return ""
        try:
            old = self._chat.store.conversation(given.id)
            refused = {name: old.parameters[name] for name in found.problems if name in old.parameters}
            new = {**refused, **found.requested}
            if (new, given.preset) != (old.parameters, old.preset):
                self._chat.store.update_conversation(given.id, parameters=new, preset=given.preset)
        except Exception as error:  # noqa: BLE001  (Gradio would show the page an empty error)
            return sentence(error)
        return ""

    def _state(self, found: Answer, given: Conversation, *, trouble: str = "", turn: int | None = None) -> str:
        """What the page shows, as JSON; ``stands``: where an unset control is to stand. Never the same twice."""
        shown = view(found, given.parameters, partial(token_text, self._chat.engine.desk))
        for control in self._controls:
            if control.fields.follows:
                shown["rows"][control.row.name]["stands"] = control.fields.show(_standing(control.row, found))[0]
        about = {
            "conversation": given.id,
            "preset": given.preset,
            "trouble": trouble,
            "turn": turn,
            "number": next(self._numbers),
        }
        return json.dumps({**shown, **about})

    def _shown(
        self, control: Control, parameters: Mapping[str, Json], found: Answer, facts: ModelFacts | None
    ) -> Iterator[Any]:
        row, fields = control.row, control.fields
        is_set = row.name in parameters
        yield is_set
        value = (
            found.requested.get(row.name, parameters[row.name])
            if is_set
            else _standing(row, found)
            if fields.follows
            else None
        )
        yield from self._field_updates(control, value, facts)

    def _field_updates(self, control: Control, value: Json, facts: ModelFacts | None) -> Iterator[Any]:
        ends = limits(control.row, facts) if control.row.control == "slider" and control.row.limit else {}
        try:
            shown = control.fields.show(value)
        except Exception:  # noqa: BLE001  (a stored value of a shape that the table no longer knows is named beside its control)
            shown = control.fields.show(None)
        for field in shown:
            yield {"__type__": "update", "value": field, **ends} if ends else field


def _standing(row: Parameter, found: Answer) -> Json:
    """Where an unset control stands: at what acts instead, also while it is out of use."""
    told = found.resolution.explained[row.name]
    return found.resolution.values[row.name] if told.active else row.unset_value
