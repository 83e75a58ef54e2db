"""A control of the page for each kind of parameter: Gradio components, and the way from their values to a JSON value and back."""

from __future__ import annotations

import json
from abc import ABCMeta
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import gradio as gr
from gradio.components import Component

from app.conversation import Json
from app.models.facts import ModelFacts
from app.parameters.row import Parameter
from ui import controls_text as lines

Read: TypeAlias = Callable[[Sequence[Any]], Json]
Show: TypeAlias = Callable[[Json], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Fields:
    """The components of one parameter. ``read`` takes their values in order; ``show`` gives the values for a JSON value, None for
    "nothing". ``follows``: while the parameter is unset, the control stands at the effective value."""

    components: tuple[Component, ...]
    read: Read
    show: Show
    follows: bool = False


def _any_number(_slider: gr.Slider, payload: float | None) -> float | None:
    """The number as it is, None for an emptied field."""
    return payload


OpenSlider: type[gr.Slider] = ABCMeta.__new__(
    type(gr.Slider),
    "OpenSlider",
    (gr.Slider,),
    {"preprocess": _any_number, "is_template": True, "__module__": __name__},
)
"""A slider whose number may be typed beyond its ends: they are the handy stretch, what is accepted is the table's to say.

Made without Gradio's own class factory, which would write a .pyi file beside this one; ``is_template``: the browser knows it as a slider.
"""


def build_fields(row: Parameter, facts: ModelFacts | None) -> Fields:
    """Build the control for a row inside the current layout, with ``param-<name>`` as its id."""
    from ui.controls_forms import FORMS

    if row.control in ("form", "pair"):
        return FORMS[row.name](row)
    return _BUILDERS[row.control](row, facts)


def look(row: Parameter) -> dict[str, Any]:
    """What all components of a parameter have in common: its id, its name for screen readers, no frame."""
    return {
        "elem_id": f"param-{row.name}",
        "label": row.name,
        "show_label": False,
        "container": False,
        "interactive": True,
    }


def _one(
    component: Component, read: Callable[[Any], Json], show: Callable[[Json], Any], *, follows: bool = False
) -> Fields:
    return Fields((component,), lambda values: read(values[0]), lambda value: (show(value),), follows)


def middle(row: Parameter, facts: ModelFacts | None) -> float:
    """Where a slider stands that has neither been set nor inherited anything: halfway, on a step."""
    ends = row.slider(facts)
    half = round((ends.low + ends.high) / 2 / ends.step) * ends.step
    return int(half) if row.kind == "int" else round(half, 6)


def _slider(row: Parameter, facts: ModelFacts | None) -> Fields:
    ends = row.slider(facts)
    high = max(ends.high, ends.low + ends.step)  # Gradio wants a slider to have some length
    start = middle(row, facts)
    slider = OpenSlider(
        ends.low, high, start if row.unset_value is None else row.unset_value, step=ends.step, buttons=[], **look(row)
    )
    return _one(slider, _same, lambda value: start if value is None else value, follows=True)


def limits(row: Parameter, facts: ModelFacts | None) -> dict[str, float]:
    """The ends of a slider with this model, as an update of it."""
    ends = row.slider(facts)
    return {"minimum": ends.low, "maximum": max(ends.high, ends.low + ends.step)}


def _number(row: Parameter, _facts: ModelFacts | None) -> Fields:
    number = gr.Number(None, placeholder="number", **look(row))
    return _one(number, _same, _same)


def _log_slider(row: Parameter, _facts: ModelFacts | None) -> Fields:
    """A number; assets/parameters puts the slider with the logarithmic scale beside it."""
    return _one(gr.Number(row.off, **look(row)), _same, lambda value: row.off if value is None else value, follows=True)


def _switch(row: Parameter, _facts: ModelFacts | None) -> Fields:
    box = gr.Checkbox(bool(row.unset_value), **look(row))
    return _one(box, bool, bool, follows=True)


def _readonly(row: Parameter, _facts: ModelFacts | None) -> Fields:
    box = gr.Checkbox(value=False, **{**look(row), "interactive": False})
    return _one(box, bool, bool)


def _choice(row: Parameter, _facts: ModelFacts | None) -> Fields:
    """A list of choices; their values travel as JSON, since false, true, null and texts are among them."""
    choices = [(choice_text(choice), json.dumps(choice)) for choice in row.choices]
    box = gr.Dropdown(choices, value=json.dumps(row.unset_value), filterable=False, **look(row))

    def show(value: Json) -> str:
        return json.dumps(value if value in row.choices else row.unset_value)

    return _one(box, lambda value: json.loads(value or "null"), show, follows=True)


def choice_text(choice: Json) -> str:
    """A choice in words."""
    if isinstance(choice, str):
        return choice.replace("_", " ")
    return {None: "model’s own", True: "on", False: "off"}[choice]


def _textbox(row: Parameter, placeholder: str, max_lines: int = 8) -> gr.Textbox:
    return gr.Textbox("", lines=1, max_lines=max_lines, placeholder=placeholder, **look(row))


_HINTS = {
    "texts": "one text a line",
    "phrases": "one text, or [ids], a line",
    "tokens": "one token a line",
    "token": "token or id",
    "rows": "text = bias",
    "json": '{"name": value}',
    "text": "text",
}


def _entries(row: Parameter, _facts: ModelFacts | None) -> Fields:
    box = _textbox(row, _HINTS[row.kind])
    return _one(
        box, lambda text: lines.read_entries(text, row.kind), lambda items: lines.write_entries(items or (), row.kind)
    )


def _token(row: Parameter, _facts: ModelFacts | None) -> Fields:
    """One token: the first entry; an empty field asks for nothing (null)."""
    box = _textbox(row, _HINTS["token"], max_lines=1)

    def read(text: str) -> Json:
        return next(iter(lines.read_entries(text, "token")), None)

    return _one(box, read, lambda item: "" if item is None else lines.write_entry(item, "token"))


def _rows(row: Parameter, _facts: ModelFacts | None) -> Fields:
    return _one(_textbox(row, _HINTS["rows"]), lines.read_rows, lambda rows: lines.write_rows(rows or ()))


def _json(row: Parameter, _facts: ModelFacts | None) -> Fields:
    def read(text: str) -> Json:
        return text.strip() or None

    return _one(_textbox(row, _HINTS["json"]), read, lines.write_json)


def _text(row: Parameter, _facts: ModelFacts | None) -> Fields:
    return _one(_textbox(row, _HINTS["text"]), lambda text: text or "", lambda value: value or "")


def _same(value: Json) -> Json:
    return value


_BUILDERS: dict[str, Callable[[Parameter, ModelFacts | None], Fields]] = {
    "slider": _slider,
    "log_slider": _log_slider,
    "number": _number,
    "switch": _switch,
    "readonly": _readonly,
    "choice": _choice,
    "texts": _entries,
    "tokens": _entries,
    "token": _token,
    "rows": _rows,
    "json": _json,
    "text": _text,
}
