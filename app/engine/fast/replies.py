"""The replies that the fast step goes on with: keys and values of each, and the room that a step works in."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from app.engine.speculation.costs import Costs
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
    costs: Costs = field(default_factory=Costs)
    length: int = 0
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
        self._pasts = kept

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits behind one more token of each reply, float32 [replies, vocabulary]."""
        self._make_room(self.length + 1)
        return self._walk([(past, self.length) for past in self._pasts], tokens)

    def follow(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits behind each of these tokens of the one reply, float32 [tokens, vocabulary], at most MOST: the very numbers that one step
        after the other gives. ``length`` grows by the first token alone: whoever finds more of them right adds those."""
        self._make_room(self.length + len(tokens))
        return self._walk([(self._pasts[0], self.length + place) for place in range(len(tokens))], tokens)

    def _walk(self, rows: Sequence[tuple[torch.Tensor, int]], tokens: Sequence[int]) -> torch.Tensor:
        """Once through the layers. A row has a past and its place in it; those of one past see what the rows before them put there."""
        import torch

        many, model = len(rows), ctypes.byref(self.decoder)
        threads = self.tempo.threads if self.tempo else self.kernels.threads
        working = self._working_room(threads, many)
        logits = torch.empty(many, int(self.decoder.output.rows))
        turns = [table.data_ptr() for table in self._tables]
        each = (ReplyStruct * many)(*(ReplyStruct(self._room, place, past.data_ptr(), *turns) for past, place in rows))
        given, begun = (INTEGER * many)(*tokens), perf_counter()
        self.kernels.calls.fader_step(
            self.kernels.team, threads, model, each, many, given, working.data_ptr(), logits.data_ptr()
        )
        self._took(many, perf_counter() - begun)
        self.length += 1
        return logits

    def _took(self, rows: int, seconds: float) -> None:
        self.costs.took(rows, seconds)
        if self.tempo and rows == len(self._pasts):  # steps of other sizes can't be compared
            self.tempo.took(seconds)

    def _working_room(self, threads: int, many: int) -> torch.Tensor:
        import torch

        floats = self.kernels.calls.fader_step_room(ctypes.byref(self.decoder), threads, self._room, many)
        if self._working is None or self._working.numel() < floats:
            self._working = torch.empty(floats, dtype=torch.float32)
        return self._working

    def _make_room(self, positions: int) -> None:
        """Room for at least so many positions."""
        if positions <= self._room:
            return
        self._room = -(-positions // ROOM) * ROOM
        self._tables = self.turns(self._room)
        for place, old in enumerate(self._pasts):  # one by one: only one of them stands there twice meanwhile
            self._pasts[place] = self._empty(self._room)
            self._pasts[place][:, :, :, : self.length] = old[:, :, :, : self.length]

    def _empty(self, room: int) -> torch.Tensor:
        import torch

        shape = self.decoder
        return torch.empty(shape.layers, 2, shape.kv_heads, room, shape.head, dtype=torch.float16)
