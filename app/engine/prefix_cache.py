"""Keys and values of prompts already read, reused exactly.

Only whole, position-aligned blocks that came from *prefill* in chunks of one fixed size are kept: with them a prompt gives bit-identical
logits whether its beginning was reused or read again. Keys and values made by decoding steps differ in the last bits and are not kept.
Blocks form chains (a block's key covers everything before it), so conversations that share a beginning share memory.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from transformers import Cache

    from app.distributed.caches import Mirror

Layers: TypeAlias = "list[tuple[torch.Tensor, torch.Tensor]]"
"""Per layer keys and values, each of shape [1, key-value heads, tokens, head size] in the model's dtype."""


def _block_keys(ids: Sequence[int], size: int) -> list[bytes]:
    """One key per whole block; each covers all tokens up to the block's end."""
    keys, key = [], b""
    for start in range(0, len(ids) - size + 1, size):
        block = ",".join(map(str, ids[start : start + size]))
        key = blake2b(key + block.encode(), digest_size=16).digest()
        keys.append(key)
    return keys


@dataclass
class PrefixCache:
    """Blocks of ``block_size`` tokens, at most ``capacity`` bytes; the least recently used are dropped first."""

    block_size: int
    capacity: int
    _blocks: OrderedDict[bytes, Layers] = field(default_factory=OrderedDict)
    _bytes: int = 0

    @property
    def used_bytes(self) -> int:
        """Bytes held."""
        return self._bytes

    def clear(self) -> None:
        """Forget everything (another model, or memory is short)."""
        self._blocks.clear()
        self._bytes = 0

    def restore(self, ids: Sequence[int], cache: Cache) -> int:
        """Fill an empty ``cache`` with the longest known beginning of ``ids``, and return its length in tokens.

        The last token is never taken from here: its logits are wanted.
        """
        keys = self._known(ids[:-1])
        self._touch(keys)
        if keys:
            fill(cache, [self._blocks[key] for key in keys])
            if mirror := _mirror(cache):
                mirror.fill(tuple(keys))
        return len(keys) * self.block_size

    def known(self, ids: Sequence[int]) -> int:
        """How many tokens at the beginning of ``ids`` are here."""
        return len(self._known(ids)) * self.block_size

    def _known(self, ids: Sequence[int]) -> list[bytes]:
        return list(takewhile(self._blocks.__contains__, _block_keys(ids, self.block_size)))

    def keep(self, ids: Sequence[int], cache: Cache) -> None:
        """Remember the whole blocks of ``ids`` that ``cache`` holds after prefill, as many of them as there is room for."""
        keys = _block_keys(ids, self.block_size)
        if not keys or not self.capacity:
            return
        keys = keys[: self.capacity // _size(cut(cache, 0, self.block_size))]
        for number, key in enumerate(keys):
            if key not in self._blocks:
                self._blocks[key] = self._cut(cache, number, key)
                self._bytes += _size(self._blocks[key])
        self._touch(keys)
        while self._bytes > self.capacity:
            key, dropped = self._blocks.popitem(last=False)
            self._bytes -= _size(dropped)
            if mirror := _mirror(cache):
                mirror.drop(key)

    def _cut(self, cache: Cache, number: int, key: bytes) -> Layers:
        """A copy of one block of a cache."""
        start, end = number * self.block_size, (number + 1) * self.block_size
        if mirror := _mirror(cache):
            mirror.hold(key, start, end)
        return cut(cache, start, end)

    def _touch(self, keys: list[bytes]) -> None:
        """These are wanted. The end of a chain ages first: without its beginning it would be of no use."""
        for key in reversed(keys):
            self._blocks.move_to_end(key)


def cut(cache: Cache, start: int, end: int) -> Layers:
    """A copy of the keys and values of the tokens from ``start`` to ``end``."""
    plain: list[Any] = list(cache.layers)
    return [(layer.keys[:, :, start:end].clone(), layer.values[:, :, start:end].clone()) for layer in plain]


def fill(cache: Cache, blocks: Sequence[Layers]) -> None:
    """Put blocks into an empty cache, one behind the other."""
    import torch

    for layer in range(len(blocks[0])):
        keys = torch.cat([block[layer][0] for block in blocks], dim=2)
        values = torch.cat([block[layer][1] for block in blocks], dim=2)
        cache.update(keys, values, layer)


def _mirror(cache: Cache) -> Mirror | None:
    """Where the model is spread over processes: the others keep their own heads of each block."""
    return getattr(cache, "mirror", None)


def _size(layers: Layers) -> int:
    return sum(t.nbytes for pair in layers for t in pair)


def can_reuse(cache: object) -> bool:
    """Whether keys and values can be cut into blocks: plain growing layers without a sliding window."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    if not isinstance(cache, DynamicCache) or getattr(cache, "offloading", False):
        return False
    return all(type(layer) is DynamicLayer for layer in cache.layers)
