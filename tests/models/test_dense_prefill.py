"""Long prompts may take the dense way through 4-bit layers: same result within rounding, the same bits every time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from app.models import packing
from app.models.dense_prefill import prefill_densely
from app.models.loading import load_model
from app.models.opening import four_bit_layers
from app.models.options import LoadOptions, Quantization
from app.settings import Settings
from tests.models.tiny import tiny_llama

pytestmark = pytest.mark.skipif(
    packing.best_layout("cpu", "bfloat16") != "avx512bf16", reason="without AVX512-BF16 bitsandbytes unpacks anyway"
)


@pytest.mark.parametrize("double_quant", [True, False])
def test_both_ways_agree_and_repeat(tmp_path: Path, settings: Settings, double_quant: bool) -> None:
    folder = tiny_llama(tmp_path / "m", attention_bias=True)
    options = LoadOptions(Quantization(double_quant=double_quant))
    model = load_model(str(folder), settings, options=options).model
    ids = torch.arange(3, 103)[None]
    with torch.inference_mode():
        kernel = model(input_ids=ids).logits.float()
        assert prefill_densely(model, from_rows=16) == 14
        dense = model(input_ids=ids).logits.float()
        again = model(input_ids=ids).logits.float()
        few = model(input_ids=ids[:, :15]).logits
    assert torch.equal(dense, again)
    assert not torch.equal(dense, kernel)  # it did take the other way
    assert (dense - kernel).norm() < 0.03 * kernel.norm()
    untouched = load_model(str(folder), settings, options=options).model
    with torch.inference_mode():
        assert torch.equal(untouched(input_ids=ids[:, :15]).logits, few)


def test_one_layer_is_as_exact_as_bf16_allows(llama: Path, settings: Settings) -> None:
    model = load_model(str(llama), settings).model
    layer = next(four_bit_layers(model))
    state = layer.weight.quant_state
    weight = packing.unpack(layer.weight.data, state.absmax, "nf4", "avx512bf16", torch.float32)
    prefill_densely(model, from_rows=16)
    torch.manual_seed(0)
    rows = torch.randn(64, 64, dtype=torch.bfloat16)
    with torch.inference_mode():
        found = layer(rows).float()
    exact = rows.float() @ weight.t()
    assert (found - exact).norm() < 2**-8 * exact.norm() * 2


def test_where_it_does_not_pay_nothing_is_changed(
    llama: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(str(llama), settings).model
    monkeypatch.setattr("app.models.dense_prefill.dense_from_rows", lambda: 512)
    assert prefill_densely(model) == 0
