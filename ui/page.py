"""The page's layout, and the few Gradio events there are: asking for a reply, and showing a conversation's settings.

Gradio owns the controls. The chat and the list of conversations are filled by assets/page from the routes of ui/server.py; it asks
for replies through one invisible component, the bridge, because a request must take the values of all controls along.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gradio as gr
from fastapi import FastAPI

from app.chat import Chat
from app.conversation import Conversation
from app.settings import Settings
from ui import first_script, shell, static
from ui.actions import Actions
from ui.api_errors import sentence
from ui.controls import build_parameters_panel
from ui.first_script import FirstScript
from ui.models_panel import build_models_panel
from ui.panel import ParametersPanel
from ui.previews import Previews
from ui.theme import theme

STYLES = ("style.css", "controls.css", "insight.css", "compare.css")
"""In this order: a later one may refine an earlier one."""

BRIDGE_ON_LOAD = "window.faderTrigger = trigger; window.dispatchEvent(new Event('fader-bridge'));"
ANSWER_ON_LOAD = "watch('value', () => window.dispatchEvent(new CustomEvent('fader-answer', {detail: JSON.parse(props.value || 'null')})));"


def mount(app: FastAPI, chat: Chat, settings: Settings) -> FastAPI:
    """Put the page at ``/`` of ``app``; nothing of it is fetched from elsewhere or reported anywhere."""
    mounted: FastAPI = gr.mount_gradio_app(
        app,
        build_page(chat, settings),
        path="/",
        theme=theme(),
        head=_head(),
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        pwa=False,
        show_error=True,
        allowed_paths=[],
    )
    mounted.add_middleware(FirstScript)
    return mounted


def _head() -> str:
    scripts = [name for name in static.contents() if name.endswith(".js") and name != first_script.NAME]
    links = [
        f'<link rel="icon" href="{static.address("icon.svg")}" type="image/svg+xml">',
        *(f'<link rel="stylesheet" href="{static.address(name)}">' for name in STYLES),
        # Imports of imports would be found one after the other.
        *(f'<link rel="modulepreload" href="{static.address(name)}">' for name in scripts),
    ]
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return "".join([viewport, *links, f'<script type="module" src="{static.address("main.js")}"></script>'])


def build_page(chat: Chat, settings: Settings) -> gr.Blocks:
    """The whole page."""
    page: gr.Blocks
    with gr.Blocks(title="Fader", analytics_enabled=False, fill_width=True, fill_height=True) as page:
        with gr.Row(elem_id="app"):
            gr.HTML(shell.SIDEBAR, elem_id="sidebar", js_on_load=None, apply_default_css=False)
            with gr.Column(elem_id="main"):
                gr.HTML(shell.TOPBAR, elem_id="topbar", js_on_load=None, apply_default_css=False)
                gr.HTML(
                    shell.CHAT.format(max_chars=settings.max_message_chars),
                    elem_id="chat",
                    js_on_load=None,
                    apply_default_css=False,
                )
                _composer()
            with gr.Column(elem_id="panel"):
                system_prompt, parameters = _panel(chat, page)
        gr.HTML(shell.TOASTS, elem_id="overlays", js_on_load=None, apply_default_css=False)
        _wire(chat, system_prompt, parameters)
    return page


def _composer() -> None:
    with gr.Column(elem_id="composer"):
        gr.Textbox(
            elem_id="prompt",
            lines=1,
            max_lines=8,
            show_label=False,
            label="Message",
            placeholder="Message",
            container=False,
            autofocus=True,
        )
        with gr.Row(elem_id="composer-actions"):
            gr.Button("Regenerate", elem_id="regenerate", size="sm", min_width=0)
            gr.Button("Continue", elem_id="continue", size="sm", min_width=0)
            gr.Button("Stop", elem_id="stop", size="sm", variant="stop", min_width=0)
            gr.Button("Send", elem_id="send", size="sm", variant="primary", min_width=0)


def _panel(chat: Chat, page: gr.Blocks) -> tuple[gr.Textbox, ParametersPanel]:
    with gr.Tabs():
        with gr.Tab("Settings", id="settings"):
            system_prompt = gr.Textbox(
                label="System prompt",
                elem_id="system-prompt",
                lines=2,
                max_lines=10,
                placeholder="How the model should behave in this conversation",
            )
            parameters = build_parameters_panel(chat)
        with gr.Tab("Model", id="model", render_children=True):
            build_models_panel(chat, page)
    return system_prompt, parameters


def _wire(chat: Chat, system_prompt: gr.Textbox, parameters: ParametersPanel) -> None:
    actions, previews = Actions(chat), Previews(chat)
    bridge = gr.HTML("", elem_id="bridge", visible="hidden", js_on_load=BRIDGE_ON_LOAD)
    answer = gr.HTML("", elem_id="answer", visible="hidden", html_template="", js_on_load=ANSWER_ON_LOAD)

    def act(event: gr.EventData, system_text: str, *values: Any) -> str:
        asked: dict[str, Any] = event._data  # noqa: SLF001  (Gradio gives custom data no public name)
        asked = {**asked, "preset": parameters.preset(values)}
        return json.dumps(actions.answer(asked, system_text, lambda: parameters.requested(values)))

    def preview(event: gr.EventData, system_text: str, *values: Any) -> str:
        asked: dict[str, Any] = event._data  # noqa: SLF001
        return json.dumps(previews.answer(asked, system_text, lambda: parameters.requested(values)))

    def show(event: gr.EventData) -> list[Any]:
        asked: dict[str, Any] = event._data  # noqa: SLF001
        nonce = asked.get("nonce")
        try:
            key = asked.get("conversation") or ""
            kept = chat.store.conversation(key) if key else unsent(parameters.fresh(), asked.get("unsent"))
        except Exception as error:  # noqa: BLE001  (Gradio would show the page an empty error)
            unchanged = [gr.skip()] * (1 + len(parameters.outputs))
            return [json.dumps({"nonce": nonce, "error": sentence(error)}), *unchanged]
        return [json.dumps({"nonce": nonce}), kept.system_prompt, *parameters.shown(kept)]

    every: dict[str, Any] = {
        "trigger_mode": "multiple",
        "concurrency_limit": None,
        "show_progress": "hidden",
        "api_visibility": "private",
    }
    previewed = gr.HTML("", elem_id="previewed", visible="hidden", html_template="", js_on_load=ANSWER_ON_LOAD)
    bridge.input(preview, [system_prompt, *parameters.inputs], [previewed], **(every | {"trigger_mode": "always_last"}))
    bridge.submit(act, [system_prompt, *parameters.inputs], [answer], **every)
    bridge.select(show, None, [answer, system_prompt, *parameters.outputs], **every)


def unsent(fresh: Conversation, kept: Any) -> Conversation:
    """A new conversation with the settings that the browser kept of it, if it kept any."""
    if not isinstance(kept, dict):
        return fresh
    again = replace(fresh, system_prompt=str(kept.get("system_prompt") or ""))
    if not isinstance(kept.get("parameters"), dict):
        return again
    return replace(again, parameters=kept["parameters"], preset=str(kept.get("preset") or ""))
