"""Text to token ids without ever letting a user's words become control tokens.

A chat template mixes control tokens (``<|im_start|>``) with what people typed. The rendered text is tokenized once, as the model
was trained on it; but wherever typed text spells an added token, that stretch is shielded before rendering and encoded apart as
plain characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transformers import PreTrainedTokenizerBase

_PRIVATE_USE = range(0xE000, 0xF8FF)


def added_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Every token that is matched as a whole before ordinary tokenization, by its text."""
    return {
        token.content: token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.content.strip()
    }


def special_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids that ``decode(skip_special_tokens=True)`` leaves out."""
    return frozenset(i for i, token in tokenizer.added_tokens_decoder.items() if token.special)


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Ids of a text in which control tokens count as such; nothing is added in front or behind."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []


def encode_literal(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Ids of a text in which no added token is recognised, whatever it spells."""
    known = added_tokens(tokenizer)
    ids = list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]) if text else []
    if not set(ids) & set(known.values()):
        return ids
    # Tokenizers match non-special added tokens even then: cut each of them after its first character.
    pattern = "|".join(re.escape(token) for token in sorted(known, key=len, reverse=True))
    cut = re.sub(pattern, lambda match: match[0][0] + "\0" + match[0][1:], text)
    return [i for piece in cut.split("\0") for i in encode(tokenizer, piece)]


@dataclass
class Shield:
    """Replaces control-token look-alikes in typed texts by private marks, and encodes a rendering that contains such marks."""

    tokenizer: PreTrainedTokenizerBase
    texts: Iterable[str]
    _hidden: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose two characters that occur in none of the texts."""
        used = {ord(c) for text in self.texts for c in text if 0xE000 <= ord(c) <= 0xF8FF}
        free = (chr(c) for c in _PRIVATE_USE if c not in used)
        self._open, self._close = next(free), next(free)
        tokens = sorted(added_tokens(self.tokenizer), key=len, reverse=True)
        self._lookalike = re.compile("|".join(map(re.escape, tokens))) if tokens else None

    def hide(self, text: str) -> str:
        """The text with each look-alike replaced by a mark."""
        return self._lookalike.sub(self._mark, text) if self._lookalike else text

    def _mark(self, match: re.Match[str]) -> str:
        self._hidden.append(match[0])
        return f"{self._open}{len(self._hidden) - 1}{self._close}"

    def encode(self, rendered: str) -> list[int]:
        """Ids of a rendering: control tokens from the template, plain characters for what was hidden."""
        parts = re.split(f"{self._open}(\\d+){self._close}", rendered)
        ids: list[int] = []
        for number, part in enumerate(parts):
            ids += (
                encode_literal(self.tokenizer, self._hidden[int(part)]) if number % 2 else encode(self.tokenizer, part)
            )
        return ids

    def reveal(self, rendered: str) -> str:
        """The rendering with the typed text back in place of the marks."""
        return re.sub(f"{self._open}(\\d+){self._close}", lambda m: self._hidden[int(m[1])], rendered)
