"""The panel on which a model is chosen, loaded and unloaded; the load itself happens in the engine's thread."""

from __future__ import annotations

from collections.abc import Callable

import gradio as gr

from app.chat import Chat
from app.errors import FaderError


def build_models_panel(chat: Chat) -> None:
    """Build the panel inside the page's column for it. How far a load is shows in the page's model status."""
    with gr.Column(elem_id="models"):
        name = gr.Dropdown(
            choices=["builtin"],
            value=chat.settings.model,
            label="Model",
            allow_custom_value=True,
            info="The built-in one, a Hugging Face id, a folder, or a GGUF file.",
            elem_id="model-name",
        )
        with gr.Row():
            load = gr.Button("Load", variant="primary", elem_id="model-load", size="sm")
            unload = gr.Button("Unload", elem_id="model-unload", size="sm")
        gr.HTML('<div id="model-details" role="status"></div>', js_on_load=None)

    def start(chosen: str) -> None:
        _told(lambda: chat.engine.load(chosen.strip()))

    def stop() -> None:
        _told(chat.engine.unload)

    load.click(start, name, None, api_visibility="private", show_progress="hidden")
    unload.click(stop, None, None, api_visibility="private", show_progress="hidden")


def _told(action: Callable[[], object]) -> None:
    try:
        action()
    except FaderError as error:
        raise gr.Error(str(error), title="Model") from error
