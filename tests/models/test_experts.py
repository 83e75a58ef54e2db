"""Mixtures of experts are 4-bit as a whole, compute what the unpacked weights compute, and survive saving and loading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bitsandbytes import functional as bnb
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from app.errors import ModelDamaged
from app.models import packing
from app.models.budget import estimate
from app.models.experts import WEIGHTS, FourBitExperts, can_be_4bit
from app.models.loading import load_model
from app.models.options import LoadOptions, Quantization
from app.native.build import NotBuilt
from app.settings import Settings
from tests.models.tiny import tiny_ernie_moe, tiny_mixtral, tiny_olmoe, tiny_qwen_moe

MAKERS = [tiny_ernie_moe, tiny_mixtral, tiny_qwen_moe, tiny_olmoe]


def _experts(model: Any) -> list[FourBitExperts]:
    return [module for module in model.modules() if isinstance(module, FourBitExperts)]


def _reference(folder: Path, four_bit: Any) -> Any:
    """The library's own modules with the values that the 4-bit experts stand for."""
    plain: Any = BitsAndBytesConfig
    config = plain(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_use_double_quant=True,
    )
    model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=config, dtype=torch.bfloat16)
    fused = [module for module in model.modules() if hasattr(module, "gate_up_proj") and module.gate_up_proj.ndim == 3]
    for stock, ours in zip(fused, _experts(four_bit), strict=True):
        for name in WEIGHTS:
            getattr(stock, name).data.copy_(ours.unpacked(name))
    return model


@pytest.fixture(params=["kernels", "no kernels"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Load on a machine where the project's kernels can be built, and on one where they can't."""
    if request.param == "no kernels":
        monkeypatch.setattr("app.native.library.build", _no_compiler)
    return bool(request.param == "kernels")


def _no_compiler(_cache: Path) -> Path:
    raise NotBuilt("no C compiler was found")


@pytest.mark.parametrize("make", MAKERS)
def test_all_experts_are_4_bit(make: Callable[[Path], Path], tmp_path: Path, settings: Settings, kernels: bool) -> None:
    loaded = load_model(str(make(tmp_path / "moe")), settings)
    assert loaded.report.linear_share_4bit == 1.0
    assert loaded.report.warnings == ()
    assert {bool(module.kernels("down_proj")) for module in _experts(loaded.model)} == {kernels}
    assert {getattr(module, name).dtype for module in _experts(loaded.model) for name in WEIGHTS} == {torch.uint8}


def test_at_real_proportions_nearly_everything_is_4_bit(tmp_path: Path, settings: Settings) -> None:
    """ERNIE 4.5 21B has 94 % of its parameters in experts; here embeddings are the small rest as they are there."""
    folder = tiny_ernie_moe(tmp_path / "moe", moe_num_experts=32, moe_intermediate_size=128)
    report = load_model(str(folder), settings).report
    assert report.share_4bit > 0.95
    assert report.bytes_by_dtype["uint8"] > report.bytes_by_dtype["bfloat16"]


@pytest.mark.parametrize("make", MAKERS)
def test_same_tokens_as_with_the_unpacked_weights(
    make: Callable[[Path], Path], tmp_path: Path, settings: Settings, kernels: bool
) -> None:
    folder = make(tmp_path / "moe")
    model: Any = load_model(str(folder), settings).model
    reference = _reference(folder, model)
    prompt: Any = {"input_ids": torch.arange(5, 45)[None], "attention_mask": torch.ones(1, 40, dtype=torch.long)}
    settings_: Any = {"do_sample": False, "max_new_tokens": 6, "output_logits": True, "return_dict_in_generate": True}
    ours, theirs = model.generate(**prompt, **settings_), reference.generate(**prompt, **settings_)
    assert torch.equal(ours.sequences, theirs.sequences)
    spread = torch.stack(theirs.logits).float().std()
    assert (torch.stack(ours.logits).float() - torch.stack(theirs.logits).float()).abs().max() < 0.1 * spread


@pytest.mark.parametrize("rows", [1, 3, 300])
def test_one_layer_computes_what_its_unpacked_weights_compute(
    rows: int, tmp_path: Path, settings: Settings, kernels: bool
) -> None:
    """Few rows are multiplied with the packed weights, many (75 per expert of 300) unpacked; both agree with the plain sum over experts."""
    ours = _experts(load_model(str(tiny_ernie_moe(tmp_path / "moe")), settings).model)[0]
    gate_up, down = (ours.unpacked(name).float() for name in WEIGHTS)
    torch.manual_seed(0)
    hidden = torch.randn(rows, 64, dtype=torch.bfloat16)
    chosen = torch.stack([torch.randperm(8)[:2] for _ in range(rows)])
    weights = torch.rand(rows, 2, dtype=torch.bfloat16)
    expected = torch.zeros(rows, 64)
    for token in range(rows):
        for slot in range(2):
            expert = int(chosen[token, slot])
            gate, up = (gate_up[expert] @ hidden[token].float()).chunk(2)
            expected[token] += weights[token, slot].float() * (down[expert] @ (torch.nn.functional.silu(gate) * up))
    with torch.inference_mode():
        found = ours(hidden, chosen, weights).float()
        assert torch.equal(found, ours(hidden, chosen, weights).float())
    assert (found - expected).norm() < 0.02 * expected.norm()  # bf16 keeps 8 bits


def test_a_number_beyond_the_last_expert_means_none(tmp_path: Path, settings: Settings) -> None:
    ours = _experts(load_model(str(tiny_mixtral(tmp_path / "moe")), settings).model)[0]
    with torch.inference_mode():
        found = ours(
            torch.ones(1, 64, dtype=torch.bfloat16), torch.tensor([[4, 4]]), torch.ones(1, 2, dtype=torch.bfloat16)
        )
    assert not found.any()


def test_saved_and_loaded_it_is_the_same(tmp_path: Path, settings: Settings, kernels: bool) -> None:
    """The first load prepares, the second finds the prepared copy; the correction bias is not zero and must come through."""
    folder = tiny_ernie_moe(tmp_path / "moe")
    first = load_model(str(folder), settings, options=LoadOptions(save_prepared=False))
    steps: set[str] = set()
    load_model(str(folder), settings)
    again = load_model(str(folder), settings, progress=lambda what, _done, _total: steps.add(what))
    assert "Quantizing to 4 bits" not in steps
    ids = torch.arange(5, 25)[None]
    with torch.inference_mode():
        assert torch.equal(first.model(input_ids=ids).logits, again.model(input_ids=ids).logits)
    bias = {name: value for name, value in again.model.state_dict().items() if "e_score_correction_bias" in name}
    assert bias
    assert all(value.dtype is torch.float32 and value.any() for value in bias.values())
    assert all(v.dtype is torch.float32 for n, v in again.model.state_dict().items() if n.endswith("mlp.gate.weight"))


@pytest.mark.parametrize("scheme", ["nf4", "fp4"])
def test_fp4_and_nf4(scheme: Any, tmp_path: Path, settings: Settings) -> None:
    options = LoadOptions(Quantization(scheme))
    loaded = load_model(str(tiny_mixtral(tmp_path / "moe")), settings, options=options)
    assert loaded.report.linear_share_4bit == 1.0
    assert loaded.facts.quantization == scheme
    assert torch.isfinite(loaded.model(input_ids=torch.tensor([[1, 2, 3]])).logits).all()


def test_a_missing_expert_is_noticed(tmp_path: Path, settings: Settings) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny_ernie_moe(tmp_path / "moe")
    file = folder / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.1.mlp.experts.7.down_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelDamaged, match="don’t fit"):
        load_model(str(folder), settings)


def test_experts_that_cannot_be_packed_stay_in_16_bits_and_are_named(tmp_path: Path, settings: Settings) -> None:
    """An inner width of 72 can't be cut into blocks of 64."""
    loaded = load_model(str(tiny_ernie_moe(tmp_path / "moe", moe_intermediate_size=72)), settings)
    assert loaded.report.linear_share_4bit < 1
    assert "mlp.experts" in loaded.report.warnings[0]
    assert torch.isfinite(loaded.model(input_ids=torch.tensor([[1, 2, 3]])).logits).all()


def test_an_estimate_counts_4_bit_experts(tmp_path: Path, settings: Settings) -> None:
    folder = tiny_ernie_moe(tmp_path / "moe", moe_num_experts=32)
    found = estimate(str(folder), settings)
    truth = load_model(str(folder), settings).report
    assert abs(found.weights_bytes - truth.resident_bytes) < 0.07 * truth.resident_bytes


def test_other_forms_of_experts_are_left_alone() -> None:
    module = torch.nn.Linear(64, 64)
    assert not can_be_4bit(module)


def test_codes_are_bitsandbytes_own() -> None:
    """So that its tools can read what we write."""
    torch.manual_seed(0)
    weight = torch.randn(64, 128, dtype=torch.bfloat16)
    library: Any = bnb
    codes, state = library.quantize_4bit(weight, quant_type="nf4", compress_statistics=False, blocksize=64)
    ours, scales = packing.quantize(weight, "nf4")
    assert (ours.view(-1) == codes.view(-1)).float().mean() > 0.999  # ties may fall either way
    assert torch.equal(scales.float().view(-1), state.absmax)


@pytest.mark.parametrize("scheme", ["nf4", "fp4"])
def test_unpacking_is_exact(scheme: str) -> None:
    """Level times scale; the greatest of every block of 64 comes back exactly where NF4 has a level of 1."""
    torch.manual_seed(0)
    weight = torch.randn(64, 128, dtype=torch.bfloat16)
    codes, scales = packing.quantize(weight, scheme)
    dense = packing.unpack(codes, scales, scheme, torch.bfloat16)
    error = (dense - weight).float().view(-1, 64).abs().amax(1) / weight.float().view(-1, 64).abs().amax(1)
    assert error.max() < 0.2
    positive = weight.view(-1, 64).amax(1) == weight.view(-1, 64).abs().amax(1)
    assert torch.equal(dense.view(-1, 64).amax(1)[positive], weight.view(-1, 64).amax(1)[positive])
