"""Weights on the integer grid of their source: code times scale plus offset, for every 32 columns.

GGUF's 4-bit and 8-bit formats are such grids (Q4_0, Q4_1, Q4_K, Q8_0). Put into NF4 their weights would be rounded a second time, which
costs the built-in model a third in perplexity; on their own grid nothing is lost. Layers are 4-bit with an offset, embeddings (and an
output layer tied to them) 8-bit without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from app.native.library import Kernels
    from app.native.weights import Weight

BITS = torch.int16
"""As what scales and offsets lie there: a parameter in float16 would pass for the dtype that the model computes in."""
GROUP = 32
"""Columns that share a scale, as in GGUF."""
STEPS = 15
STEPS8 = 127
EXACT = 0.006
"""A group lies on a grid when no weight is farther from it than this part of the group's range: what rounding to bfloat16 explains."""


class GridLinear(nn.Module):
    """``codes`` uint8 [rows, columns/2], the first of two neighbours in the high half; ``scales``, ``offsets`` bits of float16
    [rows, columns/32]; ``bias`` [rows] or None."""

    def __init__(self, columns: int, rows: int, bias: torch.Tensor | None = None, device: Any = None) -> None:
        super().__init__()
        self.in_features, self.out_features = columns, rows
        self.codes = _fixed(torch.empty(rows, columns // 2, dtype=torch.uint8, device=device))
        self.scales = _fixed(torch.empty(rows, columns // GROUP, dtype=BITS, device=device))
        self.offsets = _fixed(torch.empty_like(self.scales))
        self.bias = None if bias is None else _fixed(bias.detach())
        self.kernel: Weight | None = None

    def use(self, kernels: Kernels) -> None:
        """Multiply with the kernels from now on."""
        from app.native.weights import from_grid

        self.kernel = from_grid(kernels, self.codes.data, self.scales.data, self.offsets.data, self.bias)

    def unpacked(self) -> torch.Tensor:
        """The weight as float32 [rows, columns]."""
        codes = torch.stack([self.codes >> 4, self.codes & 15], -1).view(self.out_features, -1, GROUP)
        return (codes * _numbers(self.scales) + _numbers(self.offsets)).view(self.out_features, -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, columns] -> […, rows] in the input's dtype."""
        if self.kernel is not None and not torch.compiler.is_compiling():
            return self.kernel.apply(x)
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return functional.linear(x, self.unpacked().to(x.dtype), bias)


class GridEmbedding(nn.Module):
    """``codes`` int8 [entries, width], ``scales`` bits of float16 [entries, width/32]; hands out ``dtype``."""

    def __init__(self, entries: int, width: int, dtype: torch.dtype, device: Any = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = entries, width, dtype
        self.codes = _fixed(torch.empty(entries, width, dtype=torch.int8, device=device))
        self.scales = _fixed(torch.empty(entries, width // GROUP, dtype=BITS, device=device))
        self.kernel: Weight | None = None

    def use(self, kernels: Kernels) -> None:
        """Let the kernels read it."""
        from app.native.weights import from_grid8

        self.kernel = from_grid8(kernels, self.codes.data, self.scales.data)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[…] -> […, width]."""
        groups = self.codes[ids].unflatten(-1, (-1, GROUP))
        numbers: torch.Tensor = (groups * _numbers(self.scales[ids])).flatten(-2)
        return numbers.to(self.dtype)


class GridHead(nn.Module):
    """The output layer of a model whose embeddings it shares."""

    def __init__(self, embedding: GridEmbedding) -> None:
        super().__init__()
        self.in_features, self.out_features = embedding.embedding_dim, embedding.num_embeddings
        self._shared = (embedding,)  # in a tuple, so that it isn't a second owner of the same parameters

    @property
    def kernel(self) -> Weight | None:
        """What the kernels read."""
        return self._shared[0].kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[…, width] -> […, entries] in the input's dtype."""
        if self.kernel is not None and not torch.compiler.is_compiling():
            return self.kernel.apply(x)
        whole = self._shared[0](torch.arange(self.out_features, device=x.device))
        return functional.linear(x, whole.to(x.dtype))


def _numbers(bits: torch.Tensor) -> torch.Tensor:
    """Bits of float16 [..., groups] as float32 [..., groups, 1]."""
    return bits.view(torch.float16)[..., None].float()


def _fixed(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


def to_grid(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scales and offsets of a weight [rows, columns], as GridLinear has them.

    The grid a group lies on is found where there is one: it has the group's extremes at its ends, or fewer steps than 15 between them. Then
    scale and offset are fitted to all 32 (least squares). A group that lies on no grid is rounded to 16 even steps.
    """
    rows, columns = weight.shape
    groups = weight.detach().float().reshape(-1, GROUP)
    codes = _codes(groups)
    middle, centre = codes.mean(-1, keepdim=True), groups.mean(-1, keepdim=True)
    spread = ((codes - middle) ** 2).sum(-1, keepdim=True)
    scales = ((codes - middle) * (groups - centre)).sum(-1, keepdim=True) / spread.clamp(min=1e-6)
    offsets = (centre - scales * middle).to(torch.float16)
    pairs = codes.to(torch.uint8).view(rows, columns // 2, 2)
    shape = (rows, columns // GROUP)
    scales = scales.to(torch.float16)
    return (pairs[..., 0] << 4) | pairs[..., 1], scales.view(BITS).view(shape), offsets.view(BITS).view(shape)


def _codes(groups: torch.Tensor) -> torch.Tensor:
    """[n, 32] weights -> their codes 0 to 15, float32."""
    low = groups.amin(-1, keepdim=True)
    parts = (groups - low) / (groups.amax(-1, keepdim=True) - low).clamp(min=1e-12)
    codes = (parts * STEPS).round()
    left = ((codes / STEPS - parts).abs().amax(-1) > EXACT).nonzero().flatten()
    for steps in range(STEPS - 1, 0, -1):
        if not len(left):
            break
        tried = (parts[left] * steps).round()
        found = (tried / steps - parts[left]).abs().amax(-1) <= EXACT
        codes[left[found]] = tried[found]
        left = left[~found]
    return codes


def to_grid8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of an embedding [entries, width], as GridEmbedding has them: the greatest of a group is 127 steps."""
    entries, width = weight.shape
    groups = weight.detach().float().view(entries, width // GROUP, GROUP)
    scales = (groups.abs().amax(-1, keepdim=True) / STEPS8).clamp(min=1e-12)
    codes = (groups / scales).round()
    fitted = (codes * groups).sum(-1) / (codes**2).sum(-1).clamp(min=1e-6)
    return codes.to(torch.int8).view(entries, width), fitted.to(torch.float16).view(BITS)
