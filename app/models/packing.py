"""4-bit weights in bitsandbytes' own form, and the way between them and 16 bits; pure functions over tensors.

Codes lie row by row, the first of two neighbours in the high half of a byte. A scale (absmax) of 64 weights that were bf16 is itself one
of these numbers, so keeping it in bf16 loses nothing: 4.25 bits a weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BLOCKSIZE = 64
_LEVELS = 16
_CODES = 256


def fits(columns: int) -> bool:
    """Whether weights with so many columns can be 4-bit: a scale must not straddle two rows."""
    return columns % BLOCKSIZE == 0


def levels(scheme: str) -> torch.Tensor:
    """The 16 values of NF4 or FP4, float32, on the CPU."""
    import bitsandbytes.functional as bnb

    of_type: Any = bnb.get_4bit_type
    found: torch.Tensor = of_type(scheme, device="cpu").float()
    return found


def quantize(weight: torch.Tensor, scheme: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A [rows, columns] weight as codes (uint8 [rows, columns/2]) and scales ([rows, columns/64] in the weight's dtype)."""
    rows, columns = weight.shape
    codes, scales = _codes(weight, scheme)
    pairs = codes.view(rows, columns // 2, 2)
    return (pairs[..., 0] << 4) | pairs[..., 1], scales.reshape(rows, columns // BLOCKSIZE).to(weight.dtype)


def _codes(weight: torch.Tensor, scheme: str) -> tuple[torch.Tensor, torch.Tensor]:
    """One code 0-15 per byte, and float32 scales.

    On a CPU through bitsandbytes' 8-bit quantizer, which is three times quicker than its 4-bit one: with every level repeated 16
    times the nearest of 256 is the nearest of 16 (but for one code in 10,000 that lies in the middle between two).
    """
    import torch

    ops: Any = torch.ops.bitsandbytes
    if weight.device.type == "cpu" and scheme == "nf4":
        table = levels(scheme).repeat_interleave(_CODES // _LEVELS)
        codes, scales = ops.quantize_blockwise.default(weight.contiguous(), table, BLOCKSIZE)
        return codes >> 4, scales
    packed, scales = ops.quantize_4bit.default(weight.contiguous(), BLOCKSIZE, scheme, torch.uint8)
    packed = packed.view(weight.shape[0], -1)
    return torch.stack([packed >> 4, packed & 0xF], dim=-1).view(weight.shape), scales


def unpack(codes: torch.Tensor, scales: torch.Tensor, scheme: str, dtype: torch.dtype) -> torch.Tensor:
    """The [rows, columns] weight that the codes stand for: level times scale, rounded once to ``dtype``.

    Exactly what bitsandbytes' dequantize_4bit gives for the same weight.
    """
    import torch

    rows, half = codes.shape
    ops: Any = torch.ops.bitsandbytes
    dense: torch.Tensor = ops.dequantize_4bit.default(
        codes.contiguous(), scales.float().contiguous().view(-1), BLOCKSIZE, scheme, (rows, half * 2), dtype
    )
    return dense
