"""Controls of several fields: watermark, compilation, output format, and a pair of numbers.

The first field stands in the parameter's line; the others come below it while the parameter is set. A form reads as its JSON object,
so that the table checks it like one that came from anywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from app.conversation import Json
from app.parameters.row import Parameter
from app.parameters.shapes import COMPILE_MODES, to_compile, to_watermark
from ui.controls_kinds import Fields, OpenSlider
from ui.controls_text import read_entries, write_entries, write_json

_BELOW: dict[str, Any] = {"elem_classes": ["field"]}


def _main(**extra: Any) -> dict[str, Any]:
    return {"show_label": False, "container": False, "interactive": True, **extra}


def _kind(row: Parameter, choices: Sequence[tuple[str, str]]) -> gr.Dropdown:
    look = _main(label=f"{row.name}: kind", elem_id=f"param-{row.name}")
    return gr.Dropdown(list(choices), value=choices[0][1], filterable=False, **look)


def _object(names: Sequence[str], values: Sequence[Json]) -> dict[str, Json]:
    return dict(zip(names, values, strict=True))


def pair(row: Parameter) -> Fields:
    """Two numbers: start and factor."""
    with gr.Column(elem_id=f"param-{row.name}", elem_classes=["pair"]):
        start = gr.Number(None, placeholder="start", **_main(label=f"{row.name}: start"))
        factor = gr.Number(None, placeholder="factor", **_main(label=f"{row.name}: factor"))
    return Fields(
        (start, factor), lambda v: None if v[0] is None and v[1] is None else list(v), lambda v: v or (None, None)
    )


WATERMARK: Mapping[str, tuple[str, ...]] = {
    "greenlist": ("greenlist_ratio", "bias", "hashing_key", "seeding_scheme", "context_width"),
    "synthid": (
        "ngram_len",
        "keys",
        "context_history_size",
        "sampling_table_seed",
        "sampling_table_size",
        "skip_first_ngram_calls",
        "debug_mode",
    ),
}


def watermark(row: Parameter) -> Fields:
    """Both kinds of watermark; assets/controls.css shows the fields of the chosen one."""
    kind = _kind(row, [("greenlist", "greenlist"), ("SynthID", "synthid")])
    defaults = {name: to_watermark({"kind": name}) for name in WATERMARK}
    components: list[Component] = [kind]
    for of_kind, names in WATERMARK.items():
        with gr.Column(elem_classes=["fields", f"of-{of_kind}"]):
            components += [_watermark_field(name, defaults[of_kind][name]) for name in names]
    return Fields(tuple(components), _read_watermark, lambda value: _show_watermark(value, defaults))


def _watermark_field(name: str, default: Json) -> Component:
    match name:
        case "greenlist_ratio":
            return OpenSlider(0.01, 0.99, default, step=0.01, label=name, buttons=[], **_BELOW)
        case "bias":
            return OpenSlider(0, 20, default, step=0.1, label=name, buttons=[], **_BELOW)
        case "seeding_scheme":
            return gr.Dropdown(["lefthash", "selfhash"], value=default, label=name, filterable=False, **_BELOW)
        case "keys":
            return gr.Textbox(_numbers(default), label="keys (secret numbers)", lines=1, max_lines=4, **_BELOW)
        case "skip_first_ngram_calls" | "debug_mode":
            return gr.Checkbox(bool(default), label=name, **_BELOW)
        case _:
            return gr.Number(default, label=name, **_BELOW)


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _read_watermark(values: Sequence[Any]) -> Json:
    kind, *rest = values
    green = WATERMARK["greenlist"]
    given = (
        _object(green, rest[: len(green)]) if kind == "greenlist" else _object(WATERMARK["synthid"], rest[len(green) :])
    )
    if "keys" in given:
        given["keys"] = [word for word in str(given["keys"] or "").replace(",", " ").split() if word]
    return {"kind": kind, **given}


def _show_watermark(value: Json, defaults: Mapping[str, Mapping[str, Json]]) -> Sequence[Any]:
    chosen = {"kind": "greenlist", **(value or {})}
    shown = {kind: {**defaults[kind], **(chosen if chosen["kind"] == kind else {})} for kind in WATERMARK}
    fields = [shown[kind][name] for kind, names in WATERMARK.items() for name in names]
    return [chosen["kind"], *(_numbers(field) if isinstance(field, list) else field for field in fields)]


COMPILE = ("mode", "backend", "fullgraph", "dynamic", "options")


def compilation(row: Parameter) -> Fields:
    """How torch compiles: the mode in the line, the rest below."""
    default = to_compile({})
    mode = gr.Dropdown(
        list(COMPILE_MODES),
        value=default["mode"],
        filterable=False,
        elem_id=f"param-{row.name}",
        **_main(label=f"{row.name}: mode"),
    )
    with gr.Column(elem_classes=["fields"]):
        backend = gr.Textbox(default["backend"], label="backend", max_lines=1, **_BELOW)
        fullgraph = gr.Checkbox(default["fullgraph"], label="fullgraph", **_BELOW)
        choices: list[tuple[str, str | int | float]] = [("torch decides", "null"), ("on", "true"), ("off", "false")]
        dynamic = gr.Dropdown(choices, value="null", label="dynamic shapes", filterable=False, **_BELOW)
        options = gr.Textbox("", label="options (JSON), instead of a mode", max_lines=4, **_BELOW)

    def read(values: Sequence[Any]) -> Json:
        full = _object(COMPILE, values)
        options = (full["options"] or "").strip() or None
        return {
            **full,
            "dynamic": json.loads(full["dynamic"] or "null"),
            "options": options,
            "mode": None if options else full["mode"],
        }

    def show(value: Json) -> Sequence[Any]:
        full = {**default, **(value or {})}
        options = write_json(full["options"])
        chosen = full["mode"] or default["mode"]
        return [chosen, full["backend"], bool(full["fullgraph"]), json.dumps(full["dynamic"]), options]

    return Fields((mode, backend, fullgraph, dynamic, options), read, show)


FORMATS = {"json_schema": "schema", "regex": "pattern", "choices": "choices"}


def output_format(row: Parameter) -> Fields:
    """A JSON schema, a regular expression or a list of choices, each with a field of its own."""
    kind = _kind(row, [("JSON schema", "json_schema"), ("regular expression", "regex"), ("choices", "choices")])
    with gr.Column(elem_classes=["fields", "of-json_schema"]):
        schema = gr.Textbox(
            "", label="schema (JSON)", lines=4, max_lines=14, placeholder='{"type": "object"}', **_BELOW
        )
    with gr.Column(elem_classes=["fields", "of-regex"]):
        pattern = gr.Textbox("", label="pattern", lines=1, max_lines=4, placeholder="(yes|no)", **_BELOW)
    with gr.Column(elem_classes=["fields", "of-choices"]):
        choices = gr.Textbox("", label="choices, one a line", lines=3, max_lines=10, placeholder="red\ngreen", **_BELOW)

    def read(values: Sequence[Any]) -> Json:
        chosen = values[0]
        payload = {
            "json_schema": (values[1] or "").strip(),
            "regex": values[2] or "",
            "choices": read_entries(values[3], "texts"),
        }[chosen]
        return {"kind": chosen, FORMATS[chosen]: payload}

    return Fields((kind, schema, pattern, choices), read, _show_format)


def _show_format(value: Json) -> Sequence[Any]:
    given = value or {"kind": "json_schema"}
    schema = write_json(given.get("schema"), indent=2)
    return [given["kind"], schema, given.get("pattern", ""), write_entries(given.get("choices", ()), "texts")]


FORMS: Mapping[str, Callable[[Parameter], Fields]] = {
    "exponential_decay_length_penalty": pair,
    "watermarking_config": watermark,
    "compile_config": compilation,
    "output_format": output_format,
}
