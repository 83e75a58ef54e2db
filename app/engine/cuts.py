"""Where a prompt is cut into the chunks it is read in, and whose keys and values are kept.

Arithmetic depends on the shape of a chunk, so exact reuse needs that a token's chunk depends on the text before and in it alone,
never on what was read or kept earlier. Within that, chunks are large, because a weight is unpacked once for each, and they end with
messages, so that all of a conversation but its latest message is found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Cuts:
    """A chunk ends behind ``most`` tokens, or behind one of ``ends`` (end-of-turn tokens) when it has at least a quarter of that."""

    most: int
    ends: frozenset[int] = frozenset()

    @property
    def least(self) -> int:
        """Tokens of a chunk that ends with a message."""
        return self.most // 4

    @property
    def tail(self) -> int:
        """A prompt's end that is shorter is read with the chunk before: a forward of its own would cost more than it saves."""
        return self.most // 16

    def of(self, ids: Sequence[int]) -> list[int]:
        """The ends of the whole chunks of ``ids``, in order: those that may be kept. What comes behind the last is read, not kept."""
        found, start = [], 0
        for place, token in enumerate(ids, start=1):
            length = place - start
            if length == self.most or (length >= self.least and token in self.ends):
                found.append(place)
                start = place
        if found and 0 < len(ids) - found[-1] < self.tail:
            found.pop()
        return found

    def __str__(self) -> str:
        """For a reply's record."""
        return f"{self.most}/{self.least}"
