"""Token ids to text as they come: exact, in bounded work per token, stop strings and thinking marks cut out.

Three small filters in a row. Each takes what is new and returns what is certain, and gives up the rest in ``flush``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PreTrainedTokenizerBase

Kind: TypeAlias = Literal["answer", "thinking", "mark"]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LONGEST = 16
"""Tokens that one character may take; it has four bytes at most, and some tokenizers have tokens of single bytes."""
THINKING_PAIRS = {"<think>": "</think>", "<thinking>": "</thinking>", "<reasoning>": "</reasoning>"}


@dataclass
class IncrementalDecoder:
    """Decodes ids one by one. What it returned so far is always a prefix of ``decode`` of all ids.

    A window of ids since the last complete character is decoded together with the piece before it, because many tokenizers treat
    the first token of a text differently. A trailing replacement character may still become a real one: it is held back.
    """

    tokenizer: PreTrainedTokenizerBase
    skip: frozenset[int]
    context: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Start behind the context, whose text is not returned again."""
        self._ids = [i for i in self.context if i not in self.skip][-16:]
        self._start, self._read = 0, len(self._ids)
        self._given = self._decode(0, self._read)

    def _decode(self, start: int, end: int) -> str:
        ids = self._ids[start:end]
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def push(self, token_id: int) -> str:
        """The text that this token makes certain; often one token's, sometimes none, sometimes several's."""
        if token_id in self.skip:
            return ""
        self._ids.append(token_id)
        text = self._decode(self._start, len(self._ids))
        if text.endswith(REPLACEMENT):
            certain = text[:-1]
            new, self._given = self._beyond(certain), certain if len(certain) > len(self._given) else self._given
            if len(self._ids) - self._read > LONGEST:
                self._move_on(text)
            return new
        new = self._beyond(text)
        self._start, self._read = self._read, len(self._ids)
        self._given = self._decode(self._start, self._read)
        return new

    def _move_on(self, text: str) -> None:
        """So many tokens without the end of a character are bad bytes: begin the window later, where nothing spans its beginning."""
        end = len(self._ids)
        start, read = end - LONGEST, end - LONGEST // 2
        settled, window = self._decode(self._start, read), self._decode(start, end)
        if text == settled + window[len(self._decode(start, read)) :]:
            self._start, self._read, self._given = start, read, window[:-1]

    def flush(self) -> str:
        """What was held back."""
        return self._beyond(self._decode(self._start, len(self._ids)))

    def _beyond(self, text: str) -> str:
        return text[len(self._given) :]


@dataclass
class StopFilter:
    """Cuts the text before the first stop string, and never lets the beginning of one through."""

    stops: Sequence[str]
    hit: str | None = None
    _held: str = ""

    def push(self, text: str) -> str:
        """The part of the text that no stop string can take back."""
        if self.hit is not None:
            return ""
        self._held += text
        starts = {s: self._held.index(s) for s in self.stops if s in self._held}
        if starts:
            # The one that is complete first counts, however the text happened to be cut into pieces.
            self.hit = min(starts, key=lambda s: (starts[s] + len(s), starts[s]))
            position = starts[self.hit]
            safe, self._held = self._held[:position], ""
            return safe
        keep = _overlap(self._held, self.stops)
        safe, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return safe

    def flush(self) -> str:
        """What looked like the beginning of a stop string and wasn't."""
        rest, self._held = self._held, ""
        return "" if self.hit is not None else rest


def _overlap(text: str, wanted: Sequence[str]) -> int:
    """Length of the longest end of ``text`` that is a proper beginning of one of ``wanted``."""
    longest = max((len(w) for w in wanted), default=1) - 1
    tail = text[-longest:] if longest > 0 else ""
    return next((len(tail) - i for i in range(len(tail)) if any(w.startswith(tail[i:]) for w in wanted)), 0)


@dataclass
class ThinkingSplitter:
    """Tells thinking from answering. A block opens at the very start of a reply (by its tag, or because the prompt opened it)."""

    inside: bool = False
    closer: str | None = None
    _started: bool = False
    _held: str = field(default="")

    def __post_init__(self) -> None:
        """A block that the prompt opened is closed by whichever closing tag comes."""
        self._started = self.inside

    def push(self, text: str) -> Iterator[tuple[Kind, str]]:
        """Pieces with their kind; tags come as "mark" so that all pieces joined are the whole text."""
        self._held += text
        if not self._started:
            yield from self._open()
        if self.inside:
            yield from self._close()
        elif self._started and self._held:
            yield "answer", self._take(len(self._held))

    def _open(self) -> Iterator[tuple[Kind, str]]:
        stripped = self._held.lstrip()
        for opener, closer in THINKING_PAIRS.items():
            if stripped.startswith(opener):
                self.closer, self.inside, self._started = closer, True, True
                yield "mark", self._take(len(self._held) - len(stripped) + len(opener))
                return
        self._started = bool(stripped) and not any(o.startswith(stripped) for o in THINKING_PAIRS)

    def _close(self) -> Iterator[tuple[Kind, str]]:
        closers = [self.closer] if self.closer else list(THINKING_PAIRS.values())
        found = [(self._held.index(c), c) for c in closers if c in self._held]
        end = min(found)[0] if found else len(self._held) - _overlap(self._held, closers)
        if end:
            yield "thinking", self._take(end)
        if found:
            self.inside = False
            yield "mark", self._take(len(min(found)[1]))
            if self._held:
                yield "answer", self._take(len(self._held))

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    def flush(self) -> Iterator[tuple[Kind, str]]:
        """What was held back."""
        if self._held:
            yield ("thinking" if self.inside else "answer"), self._take(len(self._held))


def opening(text: str) -> str:
    """The end of a prompt from the tag on that leaves a thinking block open; nothing where it leaves none open."""
    bare = text.rstrip()
    tag = next((tag for tag in THINKING_PAIRS if bare.endswith(tag)), None)
    return text[len(bare) - len(tag) :] if tag else ""


def split_thinking(content: str) -> list[tuple[Kind, str]]:
    """The parts of a finished reply. A closing tag without an opening one means that the prompt had opened the block."""
    opened = any(c in content and o not in content.split(c, maxsplit=1)[0] for o, c in THINKING_PAIRS.items())
    splitter = ThinkingSplitter(inside=opened)
    return [*splitter.push(content), *splitter.flush()]
