"""A library is imported with a change, or as it is where there is nothing to change; the page and a load have what they need afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PAGE = """
import ui.server
import gradio as gr
from gradio import component_meta
print(component_meta.create_or_modify_pyi.__module__, gr.events.EventListener.set_doc.__module__)
with gr.Blocks() as page:
    button, box = gr.Button("Go"), gr.Textbox()
    button.click(lambda: "gone", outputs=box)
print(len(page.fns), gr.Slider(1, 2).get_config()["minimum"])
"""
LOAD = """
from app.models import libraries
from transformers.utils import import_utils
found = import_utils.create_import_structure_from_path
print(found.cache_info().maxsize, found.cache_info().hits > 500)
from transformers import LlamaForCausalLM, Ernie4_5_MoeForCausalLM, T5Tokenizer
print(LlamaForCausalLM.__name__)
"""
CHANGED = """
import sys
from app.imports import nothing, replace_on_import
sys.path.insert(0, sys.argv[1])
replace_on_import("a_library", "slow", nothing)
replace_on_import("a_library", "Thing.describe", lambda _: lambda self: "changed")
replace_on_import("a_library", "not_there.at_all", nothing)
import a_library
print(a_library.slow(1, two=2), a_library.Thing().describe(), a_library.kept())
"""
LIBRARY = """
def slow(*_, **__):
    return "slow"

def kept():
    return "kept"

class Thing:
    def describe(self):
        return "as it was"
"""


def shown(program: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split()


@pytest.mark.parametrize("twice", [False, True])
def test_what_is_named_is_replaced_and_all_else_stays(tmp_path: Path, twice: bool) -> None:
    (tmp_path / "a_library.py").write_text(LIBRARY)
    for _ in range(1 + twice):  # the second time from the compiled file
        assert shown(CHANGED, str(tmp_path)) == ["None", "changed", "kept"]


def test_gradio_writes_no_stub_files_and_its_events_work() -> None:
    assert shown(PAGE) == ["app.imports", "app.imports", "1", "1"]


def test_transformers_reads_its_files_once_and_finds_all_of_them() -> None:
    assert shown(LOAD) == ["None", "True", "LlamaForCausalLM"]
