"""The built-in model really answers, is really 4-bit, and its preparation survives damage and interruption."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from app.errors import ModelDamaged, ModelNotFound
from app.models import builtin as builtin_module
from app.models import prepared
from app.models.builtin import RECOMMENDED, builtin_gguf, recorded_sha256
from app.models.grid import GridLinear
from app.models.loading import LoadedModel, load_model, unload
from app.settings import Settings


def _answer(loaded: LoadedModel, question: str) -> str:
    model: Any = loaded.model
    inputs: Any = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    ids = model.generate(**inputs, do_sample=False, max_new_tokens=16)
    return str(loaded.tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def _layers(loaded: LoadedModel) -> list[GridLinear]:
    return [module for module in loaded.model.modules() if isinstance(module, GridLinear)]


def test_no_weight_is_rounded_a_second_time(builtin: LoadedModel) -> None:
    """Every weight is, bit for bit, what the GGUF file says."""
    from gguf import GGUFReader, dequantize

    file = {tensor.name: tensor for tensor in GGUFReader(builtin_gguf()).tensors}
    model: Any = builtin.model
    first = model.model.layers[3].mlp
    for name, layer in (("gate", first.gate_proj), ("up", first.up_proj), ("down", first.down_proj)):
        said = file[f"blk.3.ffn_{name}.weight"]
        assert torch.equal(layer.unpacked(), torch.from_numpy(dequantize(said.data, said.tensor_type)).float())
    said = file["token_embd.weight"]
    ids = torch.arange(0, 49152, 37)
    looked_up = model.model.embed_tokens(ids)
    assert torch.equal(looked_up, torch.from_numpy(dequantize(said.data, said.tensor_type))[ids].to(looked_up.dtype))


def test_it_knows_the_capital_of_france(builtin: LoadedModel) -> None:
    assert "Paris" in _answer(builtin, "What is the capital of France?")


def test_its_linear_layers_are_4_bit(builtin: LoadedModel) -> None:
    layers = _layers(builtin)
    assert len(layers) == 30 * 7
    assert {layer.codes.dtype for layer in layers} == {torch.uint8}
    assert builtin.report.linear_share_4bit == 1.0
    assert 0.78 < builtin.report.share_4bit < 0.80  # the tied embeddings are the rest


def test_report_adds_up(builtin: LoadedModel) -> None:
    report = builtin.report
    assert report.resident_bytes == sum(report.bytes_by_dtype.values())
    assert report.bytes_by_dtype["uint8"] == sum(layer.codes.numel() for layer in _layers(builtin))
    assert report.resident_bytes < 100_000_000  # 269 MB in bf16; the file has 98
    assert report.peak_bytes > 0
    assert report.seconds > 0
    assert all("made anew" in warning for warning in report.warnings)  # a kept test cache may have been outdated


def test_facts(builtin: LoadedModel) -> None:
    facts = builtin.facts
    assert (facts.name, facts.architecture) == ("builtin", "LlamaForCausalLM")
    assert (facts.context_length, facts.vocab_size, facts.num_layers) == (8192, 49152, 30)
    assert (facts.quantization, facts.device, facts.eos_token_ids) == ("int4", "cpu", (2,))
    assert facts.has_chat_template
    assert not facts.is_encoder_decoder
    assert facts.generation_defaults["eos_token_id"] == 2
    assert "transformers_version" not in facts.generation_defaults
    assert None not in facts.generation_defaults.values()
    json.dumps(dict(facts.fingerprint))
    assert len(facts.fingerprint["source"]["weights_sha256"]) == 64


def test_a_second_load_is_quick_and_gives_the_same_weights(builtin: LoadedModel, model_cache: Path) -> None:
    seen: Counter[str] = Counter()
    started = time.monotonic()
    again = load_model("builtin", Settings(cache=model_cache), progress=lambda what, _done, _total: seen.update([what]))
    assert time.monotonic() - started < 10  # ~1 s on a quiet machine; a conversion takes 20
    assert "Quantizing to 4 bits" not in seen
    assert seen["Loading the weights"] > 100
    assert again.facts.fingerprint["source"] == builtin.facts.fingerprint["source"]
    for one, other in zip(_layers(builtin), _layers(again), strict=True):
        assert torch.equal(one.codes, other.codes)
    unload(again)


def test_without_its_package_the_way_out_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin_module, "PACKAGE", "no_such_package_here")
    with pytest.raises(ModelNotFound, match=r"--model PATH or FADER_MODEL"):
        load_model("builtin", settings)


def test_without_its_package_a_prepared_copy_still_loads(
    builtin: LoadedModel, model_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtin_module, "PACKAGE", "no_such_package_here")
    again = load_model("builtin", Settings(cache=model_cache))
    assert again.facts.label == builtin.facts.label
    unload(again)


def test_the_package_vouches_for_its_file() -> None:
    assert recorded_sha256(builtin_gguf()) == prepared.sha256(builtin_gguf())


def test_a_file_that_differs_from_its_package_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.models.preparation.recorded_sha256", lambda _path: "0" * 64)
    with pytest.raises(ModelDamaged, match="checksum"):
        load_model("builtin", settings)


def test_it_comes_with_settings_that_suit_its_size(builtin: LoadedModel) -> None:
    assert builtin.facts.generation_defaults.items() >= RECOMMENDED.items()
