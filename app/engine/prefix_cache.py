"""Keys and values of prompts already read, reused exactly.

Only whole chunks that came from *prefill* are kept, cut by a rule that looks at the text alone (``cuts``): with them a prompt gives
bit-identical logits whether its beginning was reused or read again. Keys and values made by decoding steps differ in the last bits and
are not kept.
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
    from app.engine.cuts import Cuts

Layers: TypeAlias = "list[tuple[torch.Tensor, torch.Tensor]]"
"""Per layer keys and values, each of shape [1, key-value heads, tokens, head size] in the model's dtype."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A chunk of a prompt, from token ``start`` to ``end``; its ``key`` covers all tokens up to its end."""

    key: bytes
    start: int
    end: int


def _blocks(ids: Sequence[int], cuts: Cuts) -> list[_Block]:
    found, key, start = [], b"", 0
    for end in cuts.of(ids):
        text = ",".join(map(str, ids[start:end]))
        key = blake2b(key + text.encode(), digest_size=16).digest()
        found.append(_Block(key, start, end))
        start = end
    return found


@dataclass
class PrefixCache:
    """Blocks between ``cuts``, at most ``capacity`` bytes; the least recently used are dropped first."""

    cuts: Cuts
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
        known = [block for block in self._known(ids) if block.end < len(ids)]
        keys = [block.key for block in known]
        self._touch(keys)
        if keys:
            fill(cache, [self._blocks[key] for key in keys])
            if mirror := _mirror(cache):
                mirror.fill(tuple(keys))
        return known[-1].end if known else 0

    def known(self, ids: Sequence[int]) -> int:
        """How many tokens at the beginning of ``ids`` are here."""
        known = self._known(ids)
        return known[-1].end if known else 0

    def _known(self, ids: Sequence[int]) -> list[_Block]:
        return list(takewhile(lambda block: block.key in self._blocks, _blocks(ids, self.cuts)))

    def keep(self, ids: Sequence[int], cache: Cache) -> None:
        """Remember the whole blocks of ``ids`` that ``cache`` holds after prefill, as many of them as there is room for."""
        blocks = _blocks(ids, self.cuts)
        if not blocks or not self.capacity:
            return
        room = self.capacity // _size(cut(cache, 0, 1))
        blocks = [block for block in blocks if block.end <= room]
        for block in blocks:
            if block.key not in self._blocks:
                self._blocks[block.key] = self._cut(cache, block)
                self._bytes += _size(self._blocks[block.key])
        self._touch([block.key for block in blocks])
        while self._bytes > self.capacity:
            key, dropped = self._blocks.popitem(last=False)
            self._bytes -= _size(dropped)
            if mirror := _mirror(cache):
                mirror.drop(key)

    def _cut(self, cache: Cache, block: _Block) -> Layers:
        """A copy of one block of a cache."""
        if mirror := _mirror(cache):
            mirror.hold(block.key, block.start, block.end)
        return cut(cache, block.start, block.end)

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
