"""Compilation: with a static cache the forward pass is compiled when that is asked for, and the reply stays the same."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch

from tests.proofs.conftest import GREEDY, Lab

STATIC: dict[str, Any] = {**GREEDY, "cache_implementation": "static", "max_cache_len": 128, "max_new_tokens": 6}
TRACED = {"backend": "eager", "mode": "default"}
"""Traces the forward pass as every backend does, but needs no compiler."""


def graphs() -> int:
    """How many graphs torch has compiled in this process."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


@pytest.fixture
def fresh_compiler() -> Any:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_compile_config(precise: Lab, fresh_compiler: None) -> None:
    """In float32: in 16 bits a compiled forward rounds otherwise where the kernels don't calculate."""
    plain = precise.reply(**STATIC)
    before = graphs()
    compiled = precise.reply(**STATIC, compile_config=TRACED)
    assert not plain.inside.compiled
    assert compiled.inside.compiled
    assert graphs() > before
    assert compiled.text == plain.text
    assert compiled.effective["compile_config"]["backend"] == "eager"


def test_compile_config__of_a_4_bit_model(lab: Lab, fresh_compiler: None) -> None:
    compiled = lab.reply(**STATIC, compile_config=TRACED)
    assert compiled.inside.compiled
    assert len(compiled.ids) == len(lab.reply(**STATIC).ids)


def test_compile_config__a_second_reply_compiles_nothing(lab: Lab, fresh_compiler: None) -> None:
    lab.reply(**STATIC, compile_config=TRACED)
    before = graphs()
    lab.reply("a question of another length", **(STATIC | {"max_new_tokens": 9}), compile_config=TRACED)
    assert graphs() == before


def test_compile_config__needs_a_static_cache_and_says_so(lab: Lab) -> None:
    reply = lab.reply(**GREEDY, compile_config=TRACED)
    assert not reply.inside.compiled
    assert any(note.startswith("compile_config: Ignored: only a static cache") for note in reply.ended.run.notes)


def test_disable_compile(lab: Lab, fresh_compiler: None) -> None:
    before = graphs()
    reply = lab.reply(**STATIC, compile_config=TRACED, disable_compile=True)
    assert not reply.inside.compiled
    assert graphs() == before
    assert any(
        note.startswith("compile_config: Ignored: compilation is switched off") for note in reply.ended.run.notes
    )


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++") and not shutil.which("clang++"), reason="inductor needs a C++ compiler")
def test_compile_config__with_the_default_backend(precise: Lab, fresh_compiler: None) -> None:
    compiled = precise.reply(**STATIC, compile_config={})
    assert compiled.inside.compiled
    assert compiled.text == precise.reply(**STATIC).text
