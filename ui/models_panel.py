"""The panel on which a model is chosen, judged, loaded and unloaded; the load itself happens in the engine's thread."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.chat import Chat
from app.models.catalogue import Entry, list_models
from app.settings import Settings
from ui.load_choices import LoadChoices
from ui.model_judge import Judge, named, told

_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


def build_models_panel(chat: Chat, page: gr.Blocks) -> None:
    """Build the panel inside the page's column for it. How far a load is shows in the page's model status."""
    with gr.Column(elem_id="models"):
        name = gr.Dropdown(
            choices=choices(chat.settings),
            value=chat.settings.model,
            label="Model",
            allow_custom_value=True,
            info="One of these, a Hugging Face id, a folder, a GGUF file, or a server: https://host/v1#model.",
            elem_id="model-name",
        )
        how = LoadChoices(chat)
        with gr.Row(elem_id="model-actions"):
            load = gr.Button("Load", variant="primary", elem_id="model-load", size="sm", min_width=0)
            check = gr.Button("Will it fit?", elem_id="model-check", size="sm", min_width=0)
            cancel = gr.Button("Cancel", elem_id="model-cancel", size="sm", min_width=0)
            unload = gr.Button("Unload", elem_id="model-unload", size="sm", min_width=0)
        verdict = _words("model-verdict")
        gr.HTML('<div id="model-details" role="status"></div>', js_on_load=None, apply_default_css=False)
        _draft(chat)
        gr.HTML('<div id="model-copies"></div>', js_on_load=None, apply_default_css=False)
    judge = Judge(chat, how)
    load.click(judge.load, [name, *how.inputs], verdict, **_QUIET)
    cancel.click(lambda: told(chat.engine.cancel_load), None, verdict, **_QUIET)
    unload.click(lambda: told(chat.engine.unload), None, verdict, **_QUIET)
    check.click(judge.verdict, [name, *how.inputs], verdict, api_visibility="private")
    name.focus(lambda: gr.update(choices=choices(chat.settings)), None, name, **_QUIET)
    _follow(how, judge, name, verdict, page)


def _follow(how: LoadChoices, judge: Judge, name: gr.Dropdown, verdict: gr.Textbox, page: gr.Blocks) -> None:
    """The controls are those of the model that is named; the verdict is that of the controls."""
    page.load(how.chosen, name, how.inputs, **_QUIET)
    name.change(how.chosen, name, how.inputs, **_QUIET).then(judge.glance, [name, *how.inputs], verdict, **_QUIET)
    how.folded.expand(how.fitting, how.inputs, how.inputs, **_QUIET).then(
        judge.glance, [name, *how.inputs], verdict, **_QUIET
    )
    how.back.click(how.defaults, None, how.inputs, **_QUIET).then(judge.glance, [name, *how.inputs], verdict, **_QUIET)
    for control in how.inputs:
        # ``input`` is what a person does: an update of the controls by the page must not set off another.
        control.input(how.fitting, how.inputs, how.inputs, **_QUIET).then(  # type: ignore[attr-defined]
            judge.glance, [name, *how.inputs], verdict, **_QUIET
        )


def _words(elem_id: str) -> gr.Textbox:
    """A line for what is to be said next to its cause."""
    return gr.Textbox("", show_label=False, container=False, lines=1, max_lines=8, interactive=False, elem_id=elem_id)


def _draft(chat: Chat) -> None:
    """The small model that drafts for the large one (assisted generation); its parameters are under Settings."""
    with gr.Accordion("Draft model", open=False, elem_id="draft"):
        name = gr.Dropdown(
            choices=choices(chat.settings),
            value=None,
            label="Draft model",
            allow_custom_value=True,
            info="A much smaller model of the same family. It writes ahead, and the model above checks several tokens at once.",
            elem_id="draft-name",
        )
        with gr.Row():
            load = gr.Button("Load draft", elem_id="draft-load", size="sm", min_width=0)
            unload = gr.Button("Unload draft", elem_id="draft-unload", size="sm", min_width=0)
        words = _words("draft-verdict")
    load.click(lambda chosen: _drafted(chat, chosen), name, words, api_visibility="private")
    unload.click(lambda: told(chat.engine.unload_draft), None, words, **_QUIET)


def _drafted(chat: Chat, name: str | None) -> str:
    """Load a draft and say what came of it."""
    if not named(name):
        return "Choose a draft model first."
    job = chat.engine.load_draft(named(name))
    job.finished.wait()
    return str(job.error) if job.error else f"The draft is loaded for the next replies. {chat.engine.draft_outlook()}"


def choices(settings: Settings) -> list[tuple[str, str]]:
    """What is on this machine, as label and name, each name once, the configured model among them."""
    found = {entry.name: f"{entry.label} ({_place(entry)})" for entry in reversed(list_models(settings))}
    found.setdefault(settings.model, settings.model)
    return [(label, name) for name, label in reversed(found.items())]


def _place(entry: Entry) -> str:
    """Its size on the disk, or where else it is; of a server that doesn't answer the reason."""
    return entry.detail if entry.kind == "remote" else _size(entry.nbytes)


def _size(nbytes: int) -> str:
    if not nbytes:
        return "not here yet"
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{max(1, round(nbytes / 1e6))} MB"
