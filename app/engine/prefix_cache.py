"""Keys and values of prompts already read, reused exactly.

Only whole, position-aligned blocks that came from *prefill* in chunks of one fixed size are kept: with them a prompt gives bit-identical
logits whether its beginning was reused or read again. Keys and values made by decoding steps differ in the last bits and are not kept.
Blocks form chains (a block's key covers everything before it), so conversations that share a beginning share memory.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from transformers import Cache

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
        import torch

        keys = _block_keys(ids[:-1], self.block_size)
        known = next((n for n, key in enumerate(keys) if key not in self._blocks), len(keys))
        found = [self._blocks[key] for key in keys[:known]]
        for key in reversed(keys[:known]):
            self._blocks.move_to_end(key)
        if found:
            for layer in range(len(found[0])):
                k = torch.cat([block[layer][0] for block in found], dim=2)
                v = torch.cat([block[layer][1] for block in found], dim=2)
                cache.update(k, v, layer)
        return known * self.block_size

    def keep(self, ids: Sequence[int], cache: Cache) -> None:
        """Remember the whole blocks of ``ids`` that ``cache`` holds after prefill."""
        if not self.capacity:
            return
        size = self.block_size
        for number, key in enumerate(_block_keys(ids, size)):
            if key in self._blocks:
                self._blocks.move_to_end(key)
                continue
            span = slice(number * size, (number + 1) * size)
            plain: list[Any] = list(cache.layers)
            layers = [(layer.keys[:, :, span].clone(), layer.values[:, :, span].clone()) for layer in plain]
            self._blocks[key] = layers
            self._bytes += _size(layers)
        while self._bytes > self.capacity and self._blocks:
            _, dropped = self._blocks.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(layers: Layers) -> int:
    return sum(t.nbytes for pair in layers for t in pair)


def can_reuse(cache: object) -> bool:
    """Whether keys and values can be cut into blocks: plain growing layers without a sliding window."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    if not isinstance(cache, DynamicCache) or getattr(cache, "offloading", False):
        return False
    return all(type(layer) is DynamicLayer for layer in cache.layers)
