"""The panel on which a model is chosen, judged, loaded and unloaded; the load itself happens in the engine's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from app.chat import Chat
from app.errors import FaderError
from app.models.catalogue import Entry, list_models
from app.settings import Settings


def build_models_panel(chat: Chat) -> None:
    """Build the panel inside the page's column for it. How far a load is shows in the page's model status."""
    with gr.Column(elem_id="models"):
        name = gr.Dropdown(
            choices=choices(chat.settings),
            value=chat.settings.model,
            label="Model",
            allow_custom_value=True,
            info="One of these, a Hugging Face id, a folder, a GGUF file (loaded in 4 bits), or a server’s address.",
            elem_id="model-name",
        )
        with gr.Row(elem_id="model-actions"):
            load = gr.Button("Load", variant="primary", elem_id="model-load", size="sm", min_width=0)
            check = gr.Button("Will it fit?", elem_id="model-check", size="sm", min_width=0)
            cancel = gr.Button("Cancel", elem_id="model-cancel", size="sm", min_width=0)
            unload = gr.Button("Unload", elem_id="model-unload", size="sm", min_width=0)
        verdict = gr.Textbox(
            "", show_label=False, container=False, lines=1, max_lines=6, interactive=False, elem_id="model-verdict"
        )
        gr.HTML('<div id="model-details" role="status"></div>', js_on_load=None, apply_default_css=False)
        _draft(chat)
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    load.click(lambda chosen: _told(lambda: chat.engine.load(chosen.strip())), name, verdict, **quiet)
    cancel.click(lambda: _told(chat.engine.cancel_load), None, verdict, **quiet)
    unload.click(lambda: _told(chat.engine.unload), None, verdict, **quiet)
    check.click(lambda chosen: _verdict(chosen, chat.settings), name, verdict, api_visibility="private")
    name.focus(lambda: gr.update(choices=choices(chat.settings)), None, name, **quiet)


def _draft(chat: Chat) -> None:
    """The small model that drafts for the large one (assisted generation); its parameters are under Settings."""
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
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
        told = gr.Textbox(
            "", show_label=False, container=False, lines=1, max_lines=6, interactive=False, elem_id="draft-verdict"
        )
    load.click(lambda chosen: _drafted(chat, chosen), name, told, api_visibility="private")
    unload.click(lambda: _told(chat.engine.unload_draft), None, told, **quiet)


def _drafted(chat: Chat, name: str | None) -> str:
    """Load a draft and say what came of it."""
    if not (name or "").strip():
        return "Choose a draft model first."
    job = chat.engine.load_draft(str(name).strip())
    job.finished.wait()
    return str(job.error) if job.error else "The draft is loaded; it is used from the next reply on."


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
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.0f} MB"


def _verdict(name: str, settings: Settings) -> str:
    from app.models.budget import estimate

    try:
        return estimate(name.strip(), settings).verdict
    except FaderError as error:
        return str(error)


def _told(action: Callable[[], object]) -> str:
    """Carry out a request to the engine; what is wrong with it is said below the buttons."""
    try:
        action()
    except FaderError as error:
        return str(error)
    return ""
