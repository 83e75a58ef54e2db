"""A reply coming from a server: pieces in, events of its run out; what is known of it at any time is what is kept if it breaks off."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from app.conversation import FinishReason, Stats
from app.engine.events import TextDelta
from app.engine.streamer import generating
from app.engine.text import Kind, StopFilter, ThinkingSplitter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.engine.run import LiveRun

THINKS, THOUGHT = "<think>\n", "\n</think>\n\n"
"""Around thinking that a server sends apart from the answer; as tags they are kept in the message's text."""


@dataclass
class Strand:
    """One of the sequences: its text, what ended it, and what is known of its tokens."""

    stops: StopFilter
    text: str = ""
    thinking: ThinkingSplitter = field(default_factory=ThinkingSplitter)
    apart: bool = False
    finish: str | None = None
    stop_reason: Any = None
    entries: list[Mapping[str, Any]] = field(default_factory=list)
    pieces: int = 0

    @property
    def ended(self) -> bool:
        """Nothing more is wanted of it."""
        return self.finish is not None or self.stops.hit is not None

    @property
    def tokens(self) -> int:
        """Tokens so far; where the server doesn't list them, the pieces it sent, which usually are one token each."""
        return len(self.entries) or self.pieces

    def reason(self, run: LiveRun) -> FinishReason:
        """What ended it."""
        if self.stops.hit is not None or isinstance(self.stop_reason, str):
            return FinishReason.STOP_STRING
        if self.finish is None and run.cancelled.is_set():
            return FinishReason.STOPPED
        return FinishReason.LENGTH if self.finish == "length" else FinishReason.EOS


class Reply:
    """``count`` sequences; ``stops`` end each of them here, whatever the server knows of them."""

    def __init__(self, run: LiveRun, count: int, stops: Sequence[str], prefix: str = "") -> None:
        self.run = run
        self.strands = [Strand(StopFilter(tuple(stops))) for _ in range(count)]
        self.usage: Mapping[str, Any] = {}
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.closed = False
        for index in range(count if prefix else 0):
            self._emit(index, prefix)

    @property
    def ended(self) -> bool:
        """Whether every sequence has come to its end."""
        return all(strand.ended for strand in self.strands)

    @property
    def begun(self) -> bool:
        """Whether something has come."""
        return self.first_at is not None

    def take(self, chunk: Mapping[str, Any]) -> None:
        """One piece as the server sent it."""
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices") or ():
            index = int(choice.get("index") or 0)
            if index < len(self.strands) and not self.strands[index].ended:
                self._choice(index, choice)

    def _choice(self, index: int, choice: Mapping[str, Any]) -> None:
        strand, delta = self.strands[index], choice.get("delta") or {}
        strand.entries += (choice.get("logprobs") or {}).get("content") or ()
        thought, text = delta.get("reasoning") or delta.get("reasoning_content"), delta.get("content")
        if thought:
            self._think(index, str(thought))
        if text:
            self._answer(index, str(text))
        strand.finish, strand.stop_reason = choice.get("finish_reason"), choice.get("stop_reason")

    def _heard(self, strand: Strand) -> None:
        self.last_at = monotonic()
        strand.pieces += 1
        if self.first_at is None:
            self.first_at = self.last_at
            generating(self.run)

    def _think(self, index: int, text: str) -> None:
        strand = self.strands[index]
        self._heard(strand)
        if not strand.apart:
            strand.apart = True
            self._append(index, THINKS, "mark")
        self._append(index, text, "thinking")

    def _answer(self, index: int, text: str) -> None:
        strand = self.strands[index]
        self._heard(strand)
        if strand.apart:
            strand.apart = False
            self._append(index, THOUGHT, "mark")
        self._emit(index, strand.stops.push(text))

    def close(self) -> None:
        """Give out what was held back; nothing more will come."""
        if self.closed:
            return
        self.closed = True
        for index, strand in enumerate(self.strands):
            self._emit(index, strand.stops.flush())
            for kind, text in strand.thinking.flush():
                self._append(index, text, kind)

    def _emit(self, index: int, text: str) -> None:
        for kind, part in self.strands[index].thinking.push(text) if text else ():
            self._append(index, part, kind)

    def _append(self, index: int, text: str, kind: Kind) -> None:
        self.strands[index].text += text
        self.run.append(TextDelta(text, kind, index))

    def stats(self, index: int = 0) -> Stats:
        """Figures of a sequence: the server's counts where it gives them, times as seen from here."""
        strand, usage = self.strands[index], self.usage
        alone = len(self.strands) == 1
        tokens = int(usage.get("completion_tokens") or 0) if alone else 0
        count = tokens or strand.tokens
        first, last = self.first_at, self.last_at
        speed = (
            (count - 1) / (last - first)
            if first is not None and last is not None and last > first and count > 1
            else None
        )
        return Stats(
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            new_tokens=count,
            ttft_s=None if first is None else first - self.run.submitted_at,
            tokens_per_s=speed,
            reused_tokens=int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0),
        )
