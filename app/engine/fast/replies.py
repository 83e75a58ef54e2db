"""The replies that the fast step goes on with: keys and values of each, and the room that a step works in."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from app.native.library import INTEGER, POINTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from transformers import DynamicCache

    from app.engine.fast.tempo import Tempo
    from app.native.library import Kernels

ROOM = 512
"""Positions by which the room for keys and values grows."""
MOST = 16
"""Replies of one step (TOGETHER in step.c)."""
_LARGEST = 65504.0


class ReplyStruct(ctypes.Structure):
    """``reply`` in step.c."""

    _fields_ = (("room", INTEGER), ("length", INTEGER), *((name, POINTER) for name in ("past", "cosines", "sines")))


@dataclass(eq=False)
class Replies:
    """Replies of equal length, one step at a time for all of them. ``decoder``: the structure of the model; ``turns(room)`` gives cosines
    and sines of so many positions, float32 [room, head size]. Each gets the same numbers as it would alone.
    """

    kernels: Kernels
    decoder: Any
    turns: Any
    tempo: Tempo | None = None
    length: int = 0
    _threads: int = 0
    _room: int = 0
    _pasts: list[torch.Tensor] = field(default_factory=list)
    _tables: tuple[torch.Tensor, ...] = ()
    _working: torch.Tensor | None = None

    def begin(self, cache: DynamicCache) -> None:
        """One reply that takes over the keys and values of a prefilled cache, [1, key-value heads, tokens, head size] per layer; it is
        empty then."""
        import torch

        self.end()
        length = cache.get_seq_length()
        self._pasts = [self._empty(0)]
        self._make_room(length + 1)
        for index, layer in enumerate(cache.layers):
            full: Any = layer
            self._pasts[0][index, 0, :, :length] = full.keys[0].clamp(-_LARGEST, _LARGEST)
            self._pasts[0][index, 1, :, :length] = full.values[0].clamp(-_LARGEST, _LARGEST)
            full.keys = full.values = torch.empty(0)
        self.length = length

    def end(self) -> None:
        """Give the memory back."""
        self._pasts, self._tables, self._working, self.length, self._room = [], (), None, 0, 0

    def keep(self, places: Sequence[int]) -> None:
        """Only the replies at these places go on, in this order; a place named twice becomes two replies."""
        taken: set[int] = set()
        kept = []
        for place in places:
            kept.append(self._pasts[place].clone() if place in taken else self._pasts[place])
            taken.add(place)
        self._pasts, self._working = kept, None

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits behind one more token of each reply, float32 [replies, vocabulary]."""
        import torch

        self._make_room(self.length + 1)
        self._take(self.tempo.threads if self.tempo else self.kernels.threads)
        many, calls, model = len(self._pasts), self.kernels.calls, ctypes.byref(self.decoder)
        if self._working is None:
            floats = calls.fader_step_room(model, self._threads, self._room, many)
            self._working = torch.empty(floats, dtype=torch.float32)
        logits = torch.empty(many, int(self.decoder.output.rows))
        turns = [table.data_ptr() for table in self._tables]
        each = (ReplyStruct * many)(
            *(ReplyStruct(self._room, self.length, past.data_ptr(), *turns) for past in self._pasts)
        )
        given, working = (INTEGER * many)(*tokens), self._working.data_ptr()
        begun = perf_counter()
        calls.fader_step(self.kernels.team, self._threads, model, each, many, given, working, logits.data_ptr())
        if self.tempo:
            self.tempo.took(perf_counter() - begun)
        self.length += 1
        return logits

    def _take(self, threads: int) -> None:
        """Each works in room of its own."""
        if threads != self._threads:
            self._threads, self._working = threads, None

    def _make_room(self, positions: int) -> None:
        """Room for at least so many positions."""
        if positions <= self._room:
            return
        self._room = -(-positions // ROOM) * ROOM
        self._tables, self._working = self.turns(self._room), None
        for place, old in enumerate(self._pasts):  # one by one: only one of them stands there twice meanwhile
            self._pasts[place] = self._empty(self._room)
            self._pasts[place][:, :, :, : self.length] = old[:, :, :, : self.length]

    def _empty(self, room: int) -> torch.Tensor:
        import torch

        shape = self.decoder
        return torch.empty(shape.layers, 2, shape.kv_heads, room, shape.head, dtype=torch.float16)
