"""A weight as the kernels read it: the tensors it lies in, products with a few rows, and its unpacked form for products with many."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from app.native.library import GRID, GRID8, HALF, LEVELS, WHOLE, Kernels, WeightStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW = 16
"""Up to so many rows are multiplied with the packed weight itself. Fixed, so the same rows always take the same way."""
LEVEL_COLUMNS, GRID_COLUMNS, PLAIN_COLUMNS = 64, 32, 8
"""What the columns of a weight must be a multiple of."""
_SIXTEEN = torch.arange(16.0)


@dataclass(eq=False, slots=True)
class Weight:
    """``codes`` [rows, …] and what its kind needs beside them; float32 in, float32 out. Keeps its tensors alive."""

    kernels: Kernels
    struct: WeightStruct
    tensors: tuple[torch.Tensor, ...]
    rows: int = field(init=False)
    columns: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows, self.columns = self.struct.rows, self.struct.columns

    def multiply(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` [n, columns] times the transposed weight plus its bias: float32 [n, rows]."""
        x = x.to(torch.float32).contiguous()
        out = torch.empty(x.shape[0], self.rows)
        kernels = self.kernels
        failed = kernels.calls.fader_multiply(
            kernels.team, kernels.threads, ctypes.byref(self.struct), x.data_ptr(), x.shape[0], out.data_ptr()
        )
        if failed:
            raise MemoryError
        return out

    def unpack(self, dtype: torch.dtype, out: torch.Tensor | None = None) -> torch.Tensor:
        """The weight as numbers [rows, columns], float32 or bfloat16, in ``out`` or in memory of its own."""
        if out is None:
            out = torch.empty(self.rows, self.columns, dtype=dtype)
        kernels, brain = self.kernels, int(dtype is torch.bfloat16)
        kernels.calls.fader_unpack(kernels.team, kernels.threads, ctypes.byref(self.struct), out.data_ptr(), brain)
        return out

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` […, columns] of any float dtype -> […, rows] in that dtype, by the quicker way for its number of rows."""
        flat = x.reshape(-1, self.columns)
        if flat.shape[0] <= FEW:
            out = self.multiply(flat)
        else:
            dtype = dense_dtype()
            dense = self.unpack(dtype, self.kernels.scratch(self.rows, self.columns, dtype))
            out = functional.linear(flat.to(dtype), dense, self._bias(dtype))
        return out.to(x.dtype).view(*x.shape[:-1], self.rows)

    def _bias(self, dtype: torch.dtype) -> torch.Tensor | None:
        return self.tensors[-1].to(dtype) if self.struct.bias else None


def dense_dtype() -> torch.dtype:
    """What dense products are made in: bfloat16 on processors that calculate in it, float32 on all others.

    Without such instructions a bfloat16 product of 512 rows takes six times as long as one in float32 (measured on a Zen 3).
    """
    ask: Any = getattr(torch.cpu, "get_capabilities", dict)
    have = ask()
    return torch.bfloat16 if any(have.get(name) for name in ("amx_bf16", "avx512_bf16", "arm_bf16")) else torch.float32


def from_levels(
    kernels: Kernels, codes: torch.Tensor, scales: torch.Tensor, levels: torch.Tensor, bias: torch.Tensor | None = None
) -> Weight:
    """4-bit codes uint8 [rows, columns/2], the first of two neighbours in the high half; scales bfloat16 [rows, columns/64]; 16 levels."""
    rows, half = codes.shape
    return _weight(kernels, LEVELS, (rows, half * 2), [codes, scales.to(torch.bfloat16).contiguous()], bias, levels)


def from_grid(
    kernels: Kernels, codes: torch.Tensor, scales: torch.Tensor, offsets: torch.Tensor, bias: torch.Tensor | None = None
) -> Weight:
    """Codes 0-15 as above; scales and offsets float16 [rows, columns/32]: a number is code times scale plus offset."""
    rows, half = codes.shape
    return _weight(kernels, GRID, (rows, half * 2), [codes, scales, offsets], bias, _SIXTEEN)


def from_grid8(kernels: Kernels, codes: torch.Tensor, scales: torch.Tensor) -> Weight:
    """Codes int8 [rows, columns], scales float16 [rows, columns/32]: a number is code times scale."""
    return _weight(kernels, GRID8, (codes.shape[0], codes.shape[1]), [codes, scales], None)


def from_plain(kernels: Kernels, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Weight:
    """A bfloat16 or float32 weight [rows, columns] as it is; other dtypes are copied to float32."""
    kind = HALF if weight.dtype is torch.bfloat16 else WHOLE
    held = weight.detach() if kind == HALF else weight.detach().to(torch.float32)
    return _weight(kernels, kind, (held.shape[0], held.shape[1]), [held.contiguous()], bias)


def _weight(
    kernels: Kernels,
    kind: int,
    shape: tuple[int, int],
    tensors: Sequence[torch.Tensor],
    bias: torch.Tensor | None,
    levels: torch.Tensor | None = None,
) -> Weight:
    held = [*tensors, *([] if bias is None else [bias.detach().to(torch.float32).contiguous()])]
    pointers = [tensor.data_ptr() for tensor in tensors] + [None] * (3 - len(tensors))
    bits = [] if levels is None else [int(bits) & 0xFFFF for bits in levels.to(torch.bfloat16).view(torch.int16)]
    struct = WeightStruct(
        kind, *shape, *pointers, None if bias is None else held[-1].data_ptr(), (WeightStruct().levels.__class__)(*bits)
    )
    return Weight(kernels, struct, tuple(held))
