"""Two ways to lay out 4-bit weights, and the way between them and 16 bits; pure functions over tensors.

``canonical``: bitsandbytes' own, row by row, the first of two neighbours in the high nibble; works everywhere.
``avx512bf16``: what bitsandbytes' CPU kernel reads on CPUs with AVX512-BF16, 4-5 times faster for single tokens. Rows come in blocks
of 32; for each pair of columns a block holds 16 byte pairs, and a byte carries row r in its low and row r + 16 in its high nibble.

A scale (absmax) of 64 weights that were bf16 is itself one of these numbers, so keeping it in bf16 loses nothing: 4.25 bits a weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Layout = Literal["canonical", "avx512bf16"]
BLOCKSIZE = 64
BLOCK_ROWS = 32
_HALF = BLOCK_ROWS // 2
_DENSE_WITH_AMX = 64
_DENSE_WITHOUT_AMX = 512
_LEVELS = 16
_CODES = 256


def best_layout(device_type: str, compute_dtype: str) -> Layout:
    """The layout that this machine computes fastest with."""
    from bitsandbytes.functional import has_avx512bf16

    quick: Any = has_avx512bf16
    packed = device_type == "cpu" and compute_dtype == "bfloat16" and quick()
    return "avx512bf16" if packed else "canonical"


def dense_from_rows() -> int:
    """From how many rows on a weight in the avx512bf16 layout is better unpacked once and multiplied densely.

    With AMX the dense product is so quick that unpacking pays from 30-65 rows (4-9 times quicker at 512); without it (measured on a
    Zen 5) the 4-bit kernel holds its own up to about 512. Fixed per machine, so the same rows always take the same path.
    """
    import torch

    ask: Any = getattr(torch.cpu, "get_capabilities", dict)
    return _DENSE_WITH_AMX if ask().get("amx_bf16") else _DENSE_WITHOUT_AMX


def fits(rows: int, columns: int, layout: Layout) -> bool:
    """Whether a [rows, columns] weight can be laid out so: scales must not straddle rows, blocks must be full."""
    return columns % BLOCKSIZE == 0 and (layout == "canonical" or rows % BLOCK_ROWS == 0)


def levels(scheme: str) -> torch.Tensor:
    """The 16 values of NF4 or FP4, float32, on the CPU."""
    import bitsandbytes.functional as bnb

    of_type: Any = bnb.get_4bit_type
    found: torch.Tensor = of_type(scheme, device="cpu").float()
    return found


def quantize(weight: torch.Tensor, scheme: str, layout: Layout) -> tuple[torch.Tensor, torch.Tensor]:
    """A [rows, columns] weight as codes (uint8 [rows, columns/2]) and scales.

    Scales have the weight's dtype; [rows, columns/64] for canonical, [columns/64, rows] for avx512bf16, as the kernel wants them.
    """
    rows, columns = weight.shape
    codes, scales = _codes(weight, scheme)
    scales = scales.reshape(rows, columns // BLOCKSIZE).to(weight.dtype)
    if layout == "canonical":
        pairs = codes.view(rows, columns // 2, 2)
        return (pairs[..., 0] << 4) | pairs[..., 1], scales
    return _pack(codes), scales.t().contiguous()


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


def _pack(codes: torch.Tensor) -> torch.Tensor:
    """Codes [rows, columns], one a byte, in the avx512bf16 layout: uint8 [rows, columns/2]."""
    import torch

    rows, columns = codes.shape
    halves = codes.view(rows // BLOCK_ROWS, 2, _HALF, columns)
    both = (halves[:, 1] << 4) | halves[:, 0]
    return both.view(torch.int16).transpose(1, 2).contiguous().view(torch.uint8).view(rows, columns // 2)


def canonical_codes(packed: torch.Tensor) -> torch.Tensor:
    """The canonical bytes [rows, columns/2] of codes in the avx512bf16 layout."""
    import torch

    rows, half = packed.shape
    pairs = packed.view(torch.int16).view(rows // BLOCK_ROWS, half, _HALF).transpose(1, 2).contiguous()
    out = torch.empty(rows // BLOCK_ROWS, 2, _HALF, half, dtype=torch.uint8)
    low = pairs & 0x0F0F
    out[:, 0] = (low << 4) | (low >> 8)
    high = (pairs >> 4) & 0x0F0F
    out[:, 1] = (high << 4) | (high >> 8)
    return out.view(rows, half)


def unpack(codes: torch.Tensor, scales: torch.Tensor, scheme: str, layout: Layout, dtype: torch.dtype) -> torch.Tensor:
    """The [rows, columns] weight that the codes stand for: level times scale, rounded once to ``dtype``.

    Exactly what bitsandbytes' dequantize_4bit gives for the same weight.
    """
    import torch

    rows, half = codes.shape
    if layout != "canonical":
        codes, scales = canonical_codes(codes), scales.t()
    ops: Any = torch.ops.bitsandbytes
    dense: torch.Tensor = ops.dequantize_4bit.default(
        codes.contiguous(), scales.float().contiguous().view(-1), BLOCKSIZE, scheme, (rows, half * 2), dtype
    )
    return dense
