"""Gives a loaded model on the CPU the project's kernels: every weight stays as it is stored, what computes with it changes.

4-bit layers keep bitsandbytes' own bytes, which are therefore never repacked: a model can be saved at any time. On a processor that
doesn't calculate in bfloat16 the rest of the model works in float32, while large 16-bit weights stay in 16 bits.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from app.models.packing import BLOCKSIZE, levels
from app.native.library import Kernels
from app.native.weights import FEW, PLAIN_COLUMNS, Weight, dense_dtype, from_levels, from_plain

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LARGE = 1 << 22
"""Weights with more elements than this stay in 16 bits where the rest of a model is widened to float32 (embeddings, output layer)."""


def compute_with(model: PreTrainedModel, kernels: Kernels) -> int:
    """Put the kernels in; returns how many layers use them. Before the first forward, and only on a CPU."""
    from app.models.experts import FourBitExperts
    from app.models.grid import GridEmbedding, GridLinear
    from app.models.opening import four_bit_layers

    count = 0
    for layer in four_bit_layers(model):
        count += _take_four_bit(layer, kernels)
    for module in model.modules():
        if isinstance(module, FourBitExperts | GridLinear | GridEmbedding):
            module.use(kernels)
            count += 1
    if dense_dtype() is torch.float32 and _is_brain(model):
        _widen(model, kernels)
    return count


def _take_four_bit(layer: Any, kernels: Kernels) -> bool:
    state = layer.weight.quant_state
    if state.blocksize != BLOCKSIZE or state.shape[1] % BLOCKSIZE or layer.weight.device.type != "cpu":
        return False
    rows, columns = state.shape
    codes = layer.weight.data.view(rows, columns // 2)
    scales = _scales(state).view(rows, columns // BLOCKSIZE).to(torch.bfloat16)
    layer.register_buffer("scales", scales, persistent=False)
    layer.kernel = from_levels(kernels, codes, scales, levels(state.quant_type), layer.bias)
    layer.support_avx512bf16_for_cpu = False
    layer.__class__ = _four_bit_class()
    return True


def _scales(state: Any) -> torch.Tensor:
    """The scale of every block, float32, from where they are themselves quantized (double quant) too."""
    if not state.nested:
        plain: torch.Tensor = state.absmax.float()
        return plain
    from bitsandbytes.functional import dequantize_blockwise

    second: Any = dequantize_blockwise
    scales: torch.Tensor = second(state.absmax, state.state2).float() + state.offset
    return scales


@cache
def _four_bit_class() -> type[Any]:
    """Defined at first use because bitsandbytes takes seconds to import."""
    from bitsandbytes.nn.modules import Linear4bit

    stock: Any = Linear4bit

    class KernelLinear4bit(stock):  # type: ignore[misc]  # bitsandbytes has no types
        kernel: Weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.compiler.is_compiling():  # it can't look into the kernels, but into bitsandbytes' operators
                traced: torch.Tensor = super().forward(x)
                return traced
            return self.kernel.apply(x)

    return KernelLinear4bit


class KernelLinear(nn.Linear):
    """A linear layer whose weight stays in 16 bits while inputs are float32."""

    kernel: Weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, columns] -> […, rows] in the input's dtype."""
        if torch.compiler.is_compiling():
            bias = None if self.bias is None else self.bias.to(x.dtype)
            return nn.functional.linear(x, self.weight.to(x.dtype), bias)
        return self.kernel.apply(x)


class WideEmbedding(nn.Embedding):
    """Embeddings kept in 16 bits and handed out in float32."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[…] -> […, width], float32."""
        return super().forward(ids).float()


def _is_brain(model: PreTrainedModel) -> bool:
    return model.dtype is torch.bfloat16


def _widen(model: PreTrainedModel, kernels: Kernels) -> None:
    from app.models.grid import GridEmbedding

    for module in model.modules():
        if type(module) is nn.Linear and module.weight.numel() > FEW and module.in_features % PLAIN_COLUMNS == 0:
            module.__class__ = KernelLinear
            module.kernel = from_plain(kernels, module.weight, module.bias)  # type: ignore[assignment]
        elif isinstance(module, GridEmbedding):
            module.dtype = torch.float32
        elif isinstance(module, nn.Embedding) and type(module).forward is nn.Embedding.forward:
            module.__class__ = WideEmbedding
        else:
            _widen_own(module)


def _widen_own(module: nn.Module) -> None:
    """What a module holds itself (norms, biases, tables of positions), not what its parts hold."""
    from app.models.measure import is_four_bit

    for parameter in module.parameters(recurse=False):
        if parameter.dtype is torch.bfloat16 and not is_four_bit(module, parameter) and parameter.numel() <= LARGE:
            parameter.data = parameter.data.float()
