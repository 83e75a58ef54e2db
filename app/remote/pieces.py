"""Tokens of a server's reply as they were recorded: what a desk is for tokens that a tokenizer here knows."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.desk import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class RecordedPieces:
    """``recorded``: the bytes of each id, as a trace has them (``Trace.texts``)."""

    recorded: tuple[bytes, ...]

    def pieces(self, ids: Sequence[int]) -> tuple[Piece, ...]:
        """Readable tokens for ids; none of them is known to be special."""
        return tuple(Piece(i, self.recorded[i].decode(errors="replace"), special=False) for i in ids)

    def texts(self, ids: Sequence[int], context: Sequence[int] = ()) -> tuple[str, ...]:
        """Each token's share of the text; a character of several tokens belongs to its last one. ``context`` changes nothing."""
        del context
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        parts = [decoder.decode(self.recorded[i]) for i in ids]
        return (*parts[:-1], parts[-1] + decoder.decode(b"", final=True)) if parts else ()
