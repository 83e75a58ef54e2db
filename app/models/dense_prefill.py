"""Long prompts through 4-bit layers: unpack a weight once and multiply densely, where the processor makes that quicker.

Which way a product takes depends on its number of rows alone, so a prompt prefilled in the same chunks gives the same bits each time.
The two ways differ by rounding: here every weight is level times scale rounded to bf16 (relative error up to 2^-9) and products are
summed in one go; the 4-bit kernel sums levels times inputs and scales every 64 of them. Neither is closer to the original weights.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from app.models.packing import BLOCKSIZE, dense_from_rows, unpack

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_PROMPT = 128
"""Rows of a usual prefill chunk: where dense products pay only above, layers stay as they are."""


def prefill_densely(model: PreTrainedModel, from_rows: int | None = None) -> int:
    """Give every repacked 4-bit layer on the CPU the dense way from ``from_rows`` rows on; returns how many got it.

    Default: what packing.dense_from_rows says; nothing is done when that is more than a chunk of a prompt has. Call it after the
    warm-up, which repacks the layers.
    """
    from app.models.opening import four_bit_layers

    rows = dense_from_rows() if from_rows is None else from_rows
    if rows > _PROMPT:
        return 0
    layers = [layer for layer in four_bit_layers(model) if _is_repacked(layer)]
    for layer in layers:
        layer.dense_from_rows = rows
        layer.__class__ = _dense_class()
    return len(layers)


def _is_repacked(layer: Any) -> bool:
    import torch

    state = layer.weight.quant_state
    return bool(getattr(state, "packing_format_for_cpu", False)) and layer.compute_dtype is torch.bfloat16


@cache
def _dense_class() -> type[Any]:
    """Linear4bit with a second way; defined at first use because bitsandbytes takes seconds to import."""
    from bitsandbytes.nn.modules import Linear4bit
    from torch import bfloat16
    from torch.nn.functional import linear

    stock: Any = Linear4bit

    class DensePrefillLinear4bit(stock):  # type: ignore[misc]  # bitsandbytes has no types
        dense_from_rows: int

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = self.weight.quant_state
            if x.numel() // x.shape[-1] < self.dense_from_rows or state.blocksize != BLOCKSIZE:
                few: torch.Tensor = super().forward(x)
                return few
            weight = unpack(self.weight.data, state.absmax, state.quant_type, "avx512bf16", bfloat16)
            bias = None if self.bias is None else self.bias.to(bfloat16)
            return linear(x.to(bfloat16), weight, bias).to(x.dtype)

    return DensePrefillLinear4bit
