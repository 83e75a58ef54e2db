"""A cache of keys and values whose changes between two forwards are told to the other processes.

generate reorders, repeats and shortens its cache in the first process only; each process holds the keys and values of its own heads,
so each must do the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache as once
from typing import TYPE_CHECKING, Any

from app.distributed.messages import Change, Drop, Fill, Hold

if TYPE_CHECKING:
    from app.distributed.group import Group


@dataclass(frozen=True, eq=False)
class Mirror:
    """The other processes' parts of one cache, by its number."""

    group: Group
    model: int
    number: int

    def change(self, method: str, args: tuple[Any, ...]) -> None:
        """Do something to all of them."""
        self.group.tell(Change(self.number, method, on_cpu(args)))

    def hold(self, key: bytes, start: int, end: int) -> None:
        """Have a block kept."""
        self.group.tell(Hold(self.model, self.number, key, start, end))

    def fill(self, keys: tuple[bytes, ...]) -> None:
        """Have kept blocks put in."""
        self.group.tell(Fill(self.model, self.number, keys))

    def drop(self, key: bytes) -> None:
        """Have a kept block forgotten."""
        self.group.tell(Drop(self.model, key))


class Mirrored:
    """What a mirrored cache does differently: the others first, then itself."""

    mirror: Mirror

    def reset(self) -> None:
        """Empty it."""
        self._both("reset")

    def reorder_cache(self, beam_idx: Any) -> None:
        """Follow the beams."""
        self._both("reorder_cache", beam_idx)

    def crop(self, tokens_to_remove: int) -> None:
        """Take tokens back."""
        self._both("crop", tokens_to_remove)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """One prompt for several sequences."""
        self._both("batch_repeat_interleave", repeats)

    def batch_select_indices(self, indices: Any) -> None:
        """Some of the sequences only."""
        self._both("batch_select_indices", indices)

    def _both(self, method: str, *args: Any) -> None:
        self.mirror.change(method, args)
        getattr(super(), method)(*args)

    def __deepcopy__(self, memo: Any) -> Any:
        raise NotImplementedError("a cache that is spread over processes can't be copied")


def mirror(cache: Any, mirrored: Mirror) -> None:
    """Make ``cache`` (still empty, or made by a forward that all processes have computed) a mirrored one of the same kind."""
    stock: Any = type(cache)
    cache.__class__ = _kind(stock)
    cache.mirror = mirrored


@once
def _kind(stock: Any) -> Any:
    return type(stock.__name__, (Mirrored, stock), {})


def on_cpu(value: Any) -> Any:
    """Arguments with their tensors in main memory, for the way to another process."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: on_cpu(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_cpu(item) for item in value)
    return value
