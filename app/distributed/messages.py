"""What the first process tells the others: each message carries itself out on the receiver's share of the model.

The first process alone decides everything (tokens, draws, stops, what is kept); the others compute what they are told and nothing else,
so nothing that happens in a run, not even a stop, can make the processes disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.models.options import LoadOptions

if TYPE_CHECKING:
    from app.distributed.channel import Channel
    from app.engine.prefix_cache import Layers


@dataclass
class Share:
    """What one of the other processes holds: its parts of models, of caches and of kept blocks, by the numbers that the first one
    gave them."""

    channel: Channel
    models: dict[int, Any] = field(default_factory=dict)
    caches: dict[int, Any] = field(default_factory=dict)
    blocks: dict[tuple[int, bytes], Layers] = field(default_factory=dict)
    ended: bool = False


@dataclass(frozen=True, slots=True)
class CacheNumber:
    """Stands in a call's arguments for a cache."""

    number: int


@dataclass(frozen=True, slots=True)
class Open:
    """Load this process's part of a model from a folder that all processes see."""

    model: int
    folder: str
    options: LoadOptions

    def apply(self, share: Share) -> None:
        """Load, and report how it went."""
        from pathlib import Path

        from app.models.opening import open_model

        try:
            opened = open_model(Path(self.folder), self.options, quantize=False, processes=share.channel.size)
            share.models[self.model] = opened
            share.channel.report("")
        except Exception as error:  # noqa: BLE001  (told to the first process, whatever it is)
            share.channel.report(f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Close:
    """Free a model with its kept blocks."""

    model: int

    def apply(self, share: Share) -> None:
        """Let go of it."""
        share.models.pop(self.model, None)
        share.blocks = {key: layers for key, layers in share.blocks.items() if key[0] != self.model}


@dataclass(frozen=True, slots=True)
class Call:
    """Compute a module of a model (empty name: the whole). ``keep``: number for a cache that the call itself makes."""

    model: int
    module: str
    args: Any
    kwargs: Any
    keep: int

    def apply(self, share: Share) -> None:
        """The same forward as in the first process, on the same numbers."""
        import torch

        model = share.models[self.model]
        with torch.no_grad():
            outputs = model.get_submodule(self.module)(
                *_here(self.args, share, model.device), **_here(self.kwargs, share, model.device)
            )
        made = returned_cache(outputs)
        if made is not None and all(made is not known for known in share.caches.values()):
            share.caches[self.keep] = made


@dataclass(frozen=True, slots=True)
class Begin:
    """A new, still empty cache."""

    number: int
    cache: Any

    def apply(self, share: Share) -> None:
        """Keep it under its number."""
        share.caches[self.number] = self.cache


@dataclass(frozen=True, slots=True)
class Change:
    """Something done to a cache between two forwards: reordering beams, taking back tokens, repeating the prompt."""

    number: int
    method: str
    args: Any

    def apply(self, share: Share) -> None:
        """Do the same to this process's part."""
        cache = share.caches[self.number]
        device = next((layer.device for layer in cache.layers if getattr(layer, "device", None) is not None), "cpu")
        getattr(cache, self.method)(*_here(self.args, share, device))


@dataclass(frozen=True, slots=True)
class Forget:
    """Caches that the first process has let go of."""

    numbers: tuple[int, ...]

    def apply(self, share: Share) -> None:
        """Let go of them too."""
        for number in self.numbers:
            share.caches.pop(number, None)


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep a block of a prefilled cache: the tokens from ``start`` to ``end``."""

    model: int
    cache: int
    key: bytes
    start: int
    end: int

    def apply(self, share: Share) -> None:
        """Copy this process's heads of it."""
        from app.engine.prefix_cache import cut

        share.blocks[self.model, self.key] = cut(share.caches[self.cache], self.start, self.end)


@dataclass(frozen=True, slots=True)
class Fill:
    """Fill an empty cache with kept blocks, in order."""

    model: int
    cache: int
    keys: tuple[bytes, ...]

    def apply(self, share: Share) -> None:
        """Put this process's heads of them in."""
        from app.engine.prefix_cache import fill

        fill(share.caches[self.cache], [share.blocks[self.model, key] for key in self.keys])


@dataclass(frozen=True, slots=True)
class Drop:
    """A kept block that made room for another."""

    model: int
    key: bytes

    def apply(self, share: Share) -> None:
        """Let go of it."""
        share.blocks.pop((self.model, self.key), None)


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more will come."""

    def apply(self, share: Share) -> None:
        """Stop listening."""
        share.ended = True


def returned_cache(outputs: Any) -> Any:
    """The cache among a forward's outputs, if there is one."""
    from transformers import Cache

    values = outputs.values() if isinstance(outputs, dict) else outputs if isinstance(outputs, tuple) else ()
    return next((value for value in values if isinstance(value, Cache)), None)


def _here(value: Any, share: Share, device: Any) -> Any:
    """Told arguments with this process's caches in the place of their numbers, and tensors on its device."""
    import torch

    if isinstance(value, CacheNumber):
        return share.caches[value.number]
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _here(item, share, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_here(item, share, device) for item in value)
    return value
