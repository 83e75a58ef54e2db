"""Where a token stands: queries and keys turned as the model's own rotary embedding says, from tables made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_NEIGHBOURS = ("ernie4_5",)
"""Families that turn pairs of neighbours; the others pair a value of the first half with one of the second."""


class Positions:
    """Rotary embedding (scaled or not) of one position at a time, with the stock forward's roundings.

    rotate_half(x) · sin is (x with every pair swapped) · (sin with the sign of the pair's first negated), to the last bit.
    """

    def __init__(self, rotary: Any, model_type: str) -> None:
        self._rotary = rotary
        self._neighbours = model_type in _NEIGHBOURS
        self._cos: torch.Tensor | None = None
        self._sin: torch.Tensor | None = None

    def make_room(self, like: torch.Tensor, room: int) -> None:
        """Tables [room, head size] for the dtype of ``like``."""
        import torch

        cos, sin = (table[0] for table in self._rotary(like, torch.arange(room)[None]))
        half = cos.shape[-1] // 2
        if self._neighbours:
            cos = cos[:, :half].repeat_interleave(2, dim=-1)
            sin = torch.stack([-sin[:, :half], sin[:, :half]], dim=-1).flatten(-2)
        else:
            sin = torch.cat([-sin[:, :half], sin[:, half:]], dim=-1)
        self._cos, self._sin = cos, sin

    def clear(self) -> None:
        """Let go of the tables."""
        self._cos = self._sin = None

    def at(self, position: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What ``turn`` needs for a position: cosines and signed sines, [head size]."""
        assert self._cos is not None and self._sin is not None  # noqa: S101, PT018
        return self._cos[position], self._sin[position]

    def turn(self, heads: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """``heads`` [heads, head size] turned; in float32 where the model's tables are."""
        cos, sin = tables
        size = heads.shape[-1]
        pairs = heads.view(-1, size // 2, 2)
        swapped = pairs.flip(-1).view(-1, size) if self._neighbours else heads.roll(size // 2, -1)
        return heads * cos + swapped * sin
