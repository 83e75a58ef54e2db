"""Products of one token with 4-bit weights: layers that read the same input merged into one call of bitsandbytes' CPU kernel.

The kernel computes every row by itself, so merged layers give the same bits as layers one by one. Merging takes no second copy of the
codes: the layers keep views into the merged weight.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

from app.models.packing import BLOCKSIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

_KERNEL = "gemv_4bit_inference_cpu_nf4_bf16"


class Product:
    """``out`` [rows] = merged 4-bit weights [rows, columns] times ``source`` [columns], all bfloat16, in buffers of its own.

    Write the input into ``source``, call, and read ``out``, which the next call overwrites. ``layers``: Linear4bit of NF4 in the
    AVX512-BF16 layout with equal columns.
    """

    def __init__(self, layers: Sequence[Any], source: torch.Tensor | None = None) -> None:
        import torch

        states = [layer.weight.quant_state for layer in layers]
        self.columns = int(states[0].shape[1])
        self.rows = sum(int(state.shape[0]) for state in states)
        self.weight, self.absmax = _merged(layers, states)
        self.code = states[0].code
        self.bias = _merged_bias(layers)
        self.source = torch.zeros(self.columns, dtype=torch.bfloat16) if source is None else source
        self.out = torch.zeros(self.rows, dtype=torch.bfloat16)
        self._run: Callable[[], Any] = self.public

    def __call__(self) -> torch.Tensor:
        """Compute ``out`` from ``source``, and return it."""
        self._run()
        if self.bias is not None:
            self.out.add_(self.bias)
        return self.out

    def public(self) -> None:
        """The product through bitsandbytes' public operator."""
        import torch

        ops: Any = torch.ops.bitsandbytes
        shape = (self.rows, self.columns)
        self.out.copy_(ops.gemv_4bit(self.source[None], self.weight, shape, self.absmax, self.code, BLOCKSIZE)[0])

    def go_direct(self) -> bool:
        """Call the kernel itself from now on, if it is there and gives the public operator's bits for a pattern of numbers."""
        import torch

        kernel = _kernel()
        if kernel is None:
            return False
        pointers = [tensor.data_ptr() for tensor in (self.source, self.weight, self.absmax, self.out)]
        given = (1, self.rows, self.columns, *pointers, BLOCKSIZE, self.columns, self.rows)
        arguments = [kind(value) for kind, value in zip(_SIGNATURE, given, strict=True)]
        self.source.copy_(torch.linspace(-2, 2, self.columns).sin())
        self.public()
        expected = self.out.clone()
        self.out.zero_()
        kernel(*arguments)
        if not torch.equal(self.out, expected):
            return False
        self._run = lambda: kernel(*arguments)
        return True


_SIGNATURE: tuple[Any, ...] = (*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)
"""Rows of the input, rows, columns; pointers to input, codes, scales, output; block size, strides of input and output."""


@cache
def _kernel() -> Callable[..., None] | None:
    """The kernel behind the public operator: a private symbol, whose own cost is a third of the operator's."""
    from bitsandbytes.cextension import lib

    function = getattr(getattr(lib, "_lib", None), _KERNEL, None)
    address = ctypes.cast(function, ctypes.c_void_p).value if function else None
    return ctypes.CFUNCTYPE(None, *_SIGNATURE)(address) if address else None


def _merged(layers: Sequence[Any], states: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes [rows, columns/2] and scales [columns/64, rows]; the layers' codes become views."""
    import torch

    if len(layers) == 1:
        return layers[0].weight.data, states[0].absmax.contiguous()
    weight = torch.cat([layer.weight.data for layer in layers])
    start = 0
    for layer in layers:
        rows = layer.weight.data.shape[0]
        layer.weight.data = weight[start : start + rows]
        start += rows
    return weight, torch.cat([state.absmax for state in states], dim=1).contiguous()


def _merged_bias(layers: Sequence[Any]) -> torch.Tensor | None:
    import torch

    if all(layer.bias is None for layer in layers):
        return None
    parts = [torch.zeros(layer.out_features) if layer.bias is None else layer.bias.data for layer in layers]
    return torch.cat([part.to(torch.bfloat16) for part in parts])
