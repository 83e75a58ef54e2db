"""A model that claims 4-bit and isn't is told so, with the modules named: after a load of ours, and of what others have quantized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from app.models.honesty import named
from app.models.loading import load_model, unload
from app.models.options import LoadOptions, Quantization
from app.settings import Settings
from tests.models.tiny import tiny_ernie_moe, tiny_llama, tiny_tokenizer


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """What the libraries alone make of a mixture of experts "in 4 bits": the experts stay in 16, and the config says 4-bit."""
    plain: Any = BitsAndBytesConfig
    config = plain(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    folder = tiny_ernie_moe(tmp_path / "moe")
    model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=config, dtype=torch.bfloat16)
    model.save_pretrained(tmp_path / "stock")
    tiny_tokenizer().save_pretrained(tmp_path / "stock")
    return tmp_path / "stock"


@pytest.mark.parametrize(
    ("scheme", "begins"), [("auto", "Asked for 4-bit, but"), ("none", "Its config says 4-bit, but")]
)
def test_a_checkpoint_that_calls_itself_4_bit_is_checked(
    stock: Path, settings: Settings, scheme: Any, begins: str
) -> None:
    loaded = load_model(str(stock), settings, options=LoadOptions(Quantization(scheme)))
    assert loaded.report.linear_share_4bit < 0.5
    (warning,) = loaded.report.warnings
    assert warning == f"{begins} these are not: model.layers.{{1–2}}.mlp.experts."
    unload(loaded)


def test_what_is_4_bit_and_what_claims_nothing_is_not_doubted(settings: Settings, tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "plain")
    for options in (LoadOptions(), LoadOptions(Quantization("none"))):
        loaded = load_model(str(folder), settings, options=options)
        assert loaded.report.warnings == ()
        unload(loaded)


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        (["lm_head"], "lm_head"),
        (["model.layers.3.mlp.experts"], "model.layers.3.mlp.experts"),
        ([f"model.layers.{i}.mlp.experts" for i in range(1, 28)], "model.layers.{1–27}.mlp.experts"),
        (["layers.1.a", "layers.7.a", "layers.3.a", "layers.1.b"], "layers.{1, 3, 7}.a, layers.1.b"),
        ([f"kind{letter}" for letter in "abcdef"], "kinda, kindb, kindc, kindd and 2 more kinds"),
    ],
)
def test_modules_of_one_kind_are_named_together(modules: list[str], words: str) -> None:
    assert named(modules) == words
