"""Markdown of a reply that is still being written, rendered so that work and payload per update don't grow with the reply.

A block is final once a complete line after it has begun another block; until then it is rendered again with every piece.
At every moment the blocks are those of ``rendering.render_blocks`` for the text so far.
"""

from __future__ import annotations

from itertools import takewhile

from ui.rendering import blocks, normal


class StreamRenderer:
    """Takes pieces of text; ``blocks`` is their HTML so far, of which ``final`` won't change any more."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.final = 0
        self._open = ""
        self._held = ""

    def feed(self, piece: str) -> int:
        """Add text and return the index of the first block that has changed (or how many there are, if none has)."""
        text = self._held + piece
        self._held = "\r" if text.endswith("\r") else ""
        text = normal(text)
        self._open += text
        first, before = self.final, self.blocks[self.final :]
        if "\n" in text:
            self._settle()
        self.blocks[self.final :] = [html for _, html in blocks(self._open)]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, self.blocks[first:], strict=False))
        return first + sum(1 for _ in same)

    def _settle(self) -> None:
        """Keep the blocks that can't change any more and go on from the start of the last one."""
        complete = self._open[: self._open.rindex("\n") + 1]
        found = list(blocks(complete))
        if len(found) < 2:
            return
        self.blocks[self.final :] = [html for _, html in found[:-1]]
        self.final += len(found) - 1
        self._open = self._open[_line_start(self._open, found[-1][0]) :]


def _line_start(text: str, line: int) -> int:
    position = 0
    for _ in range(line):
        position = text.index("\n", position) + 1
    return position
