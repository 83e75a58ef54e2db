"""What can be asked about a loaded model without its thread: how text is tokenized, and what the prompt would be.

A tokenizer changes inside while it encodes, so one that the engine's thread uses must not be used by another: the desk has a copy
of its own, and a lock.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from app.engine.encoding import encode, encode_literal
from app.engine.prompt import Prompt, build_prompt
from app.engine.text import IncrementalDecoder
from app.parameters.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import PreTrainedTokenizerBase

    from app.conversation import Json, Message
    from app.models.facts import ModelFacts

MIN_ROOM = 16
"""Tokens that must be free for a reply, however long the conversation."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One token as a person can read it. ``text``: as it decodes alone (bytes of a split character as replacement characters)."""

    id: int
    text: str
    special: bool


@dataclass(frozen=True, slots=True)
class Meter:
    """Tokens of the context: used by the prompt, reserved for the reply, and left over."""

    context: int
    used: int
    reserved: int

    @property
    def free(self) -> int:
        """Neither used nor reserved."""
        return max(0, self.context - self.used - self.reserved)


@dataclass(frozen=True, slots=True)
class Preview:
    """The exact prompt before it is sent, and how it fills the context."""

    prompt: Prompt
    pieces: tuple[Piece, ...]
    meter: Meter


def reserve_for(values: Mapping[str, Json], facts: ModelFacts) -> int:
    """Tokens kept free for the reply: what was asked for, but not more than a quarter of the context at the prompt's expense."""
    wanted = int(values["max_new_tokens"] or facts.context_length)
    return max(MIN_ROOM, min(wanted, facts.context_length // 4))


@dataclass
class Desk:
    """Answers about one loaded model; its methods may be called from any thread."""

    tokenizer: PreTrainedTokenizerBase
    facts: ModelFacts
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Take a copy of the tokenizer."""
        self.tokenizer = deepcopy(self.tokenizer)

    def tokenize(self, text: str, *, literal: bool = False) -> tuple[Piece, ...]:
        """The tokens of a text; ``literal``: control tokens it spells are plain characters."""
        with self._lock:
            ids = encode_literal(self.tokenizer, text) if literal else encode(self.tokenizer, text)
            return self._pieces(ids)

    def pieces(self, ids: Sequence[int]) -> tuple[Piece, ...]:
        """Readable tokens for ids; unknown ids give an empty text."""
        with self._lock:
            return self._pieces(ids)

    def texts(self, ids: Sequence[int], context: Sequence[int] = ()) -> tuple[str, ...]:
        """Each token's share of the text of ``ids``, control tokens shown; joined they are the whole text.

        A character of several tokens belongs to its last one. ``context``: the ids in front, whose text isn't given again.
        """
        with self._lock:
            decoder = IncrementalDecoder(self.tokenizer, frozenset(), context)
            parts = [decoder.push(i) for i in ids]
            return (*parts[:-1], parts[-1] + decoder.flush()) if parts else ()

    def encode(self, text: str) -> list[int]:
        """Ids of a text, control tokens recognised."""
        with self._lock:
            return encode(self.tokenizer, text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens shown."""
        with self._lock:
            return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def shown(self, ids: Sequence[int]) -> str:
        """The text of ids as a reply shows it, without special tokens."""
        with self._lock:
            text = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
            return str(text)

    def preview(
        self,
        messages: Sequence[Message],
        *,
        system_prompt: str = "",
        prefix: str = "",
        requested: Mapping[str, Json],
    ) -> Preview:
        """The prompt as it would be sent now. Raises RefusedInput and BadParameter as a run would."""
        values = resolve(requested, self.facts).values
        with self._lock:
            prompt = build_prompt(
                self.tokenizer,
                self.facts,
                messages,
                system_prompt=system_prompt,
                prefix=prefix,
                reserve=reserve_for(values, self.facts),
                policy=str(values["context_policy"]),
            )
            pieces = self._pieces(prompt.ids)
        fitted = resolve(requested, self.facts, prompt_tokens=len(prompt.ids)).values["max_new_tokens"]
        reserved = int(fitted) if fitted is not None else 0
        return Preview(prompt, pieces, Meter(self.facts.context_length, len(prompt.ids), reserved))

    def _pieces(self, ids: Sequence[int]) -> tuple[Piece, ...]:
        special = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        texts = self.tokenizer.batch_decode([[i] for i in ids], clean_up_tokenization_spaces=False)
        return tuple(Piece(i, str(text), i in special) for i, text in zip(ids, texts, strict=True))
