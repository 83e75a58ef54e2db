"""Gradio is imported without the work for editors, and everything that a page needs of it is there."""

from __future__ import annotations

import subprocess
import sys

SHOW = """
import ui.server
import gradio as gr
from gradio import component_meta
print(component_meta.create_or_modify_pyi.__module__, gr.events.EventListener.set_doc.__module__)
with gr.Blocks() as page:
    button, box = gr.Button("Go"), gr.Textbox()
    button.click(lambda: "gone", outputs=box)
print(len(page.fns), gr.Slider(1, 2).get_config()["minimum"])
"""


def _shown(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split()


def test_stub_files_and_documentation_are_left_out_and_events_work() -> None:
    assert _shown(SHOW) == ["ui.trimmed_gradio", "ui.trimmed_gradio", "1", "1"]


def test_a_gradio_without_these_functions_is_imported_as_it_is() -> None:
    others = {"gradio.events": ("EventListener", "not_there"), "gradio.component_meta": ("nor", "this")}
    missing = f"from ui import trimmed_gradio; trimmed_gradio.UNUSED = {others}"
    assert _shown(missing + SHOW)[:2] == ["gradio.component_meta", "gradio.events"]
