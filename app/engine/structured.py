"""Structured output: a logits processor that lets through only tokens with which the reply can still obey its form.

The form is compiled by llguidance. Where each sequence stands is found by its tokens, not by its place in the batch, so the processor
works for one sequence, for several, and for beams that are reordered and replaced at every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import LogitsProcessor

from app.errors import BadParameter
from app.parameters.formats import grammar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from llguidance import LLMatcher, LLTokenizer
    from transformers import PreTrainedTokenizerBase

    from app.conversation import Json

Tokens = tuple[int, ...]


class Forms:
    """Compiles forms for one model; its tokenizer is converted once per set of end tokens (about a second for a large one)."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._converted: dict[Tokens, LLTokenizer] = {}

    def processor(
        self, wanted: Mapping[str, Json], ends: Sequence[int], given: Sequence[int], start: int
    ) -> FormProcessor:
        """A processor for sequences whose reply begins at position ``start`` with the tokens ``given``.

        Raises BadParameter when nothing could end the reply, when its beginning already breaks the form, or when the tokenizer or
        the form can't be used.
        """
        if not ends:
            raise BadParameter(
                "output_format", "there is no end token (eos_token_id is empty), so nothing could end the reply"
            )
        from llguidance import LLMatcher

        matcher = LLMatcher(self._convert(tuple(ends)), grammar(wanted), log_level=0)
        if matcher.is_error():
            raise BadParameter("output_format", matcher.get_error())
        if given and not matcher.consume_tokens(list(given)):
            raise BadParameter("output_format", "the reply already begins with a text that this form doesn't allow")
        return FormProcessor(matcher, start + len(given), frozenset(ends))

    def _convert(self, ends: Tokens) -> LLTokenizer:
        from llguidance.hf import from_tokenizer
        from transformers import PreTrainedTokenizerFast

        if not isinstance(self._tokenizer, PreTrainedTokenizerFast):
            raise BadParameter("output_format", "this model's tokenizer can't be read by the form's compiler")
        if ends not in self._converted:
            self._converted[ends] = from_tokenizer(self._tokenizer, n_vocab=self._vocab_size, eos_token=list(ends))
        return self._converted[ends]


class FormProcessor(LogitsProcessor):
    """Sets to -inf what would break the form. Sequences that have ended are left alone."""

    def __init__(self, matcher: LLMatcher, start: int, ends: frozenset[int]) -> None:
        self._root = matcher
        self._start = start
        self._ends = ends
        self._states: dict[Tokens, LLMatcher] = {(): matcher}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``input_ids``: [batch, tokens]; ``scores``: [batch, vocabulary]; returns a new tensor of the latter's shape."""
        import torch

        rows = [tuple(row) for row in input_ids[:, self._start :].tolist()]
        self._states = {row: self._after(row) for row in rows if self._ends.isdisjoint(row)}
        allowed = [self._allowed(row, scores) for row in rows]
        return scores.masked_fill(~torch.stack(allowed), float("-inf"))

    def _after(self, row: Tokens) -> LLMatcher:
        """The matcher behind these tokens: one step from the last call's where there is one, else from the beginning."""
        if row in self._states:
            return self._states[row]
        known = row[:-1] in self._states
        matcher = (self._states[row[:-1]] if known else self._root).deep_copy()
        matcher.consume_tokens([row[-1]] if known else list(row))
        return matcher

    def _allowed(self, row: Tokens, scores: torch.Tensor) -> torch.Tensor:
        """Bool [vocabulary]."""
        import numpy as np
        import torch

        if row not in self._states:
            return torch.ones_like(scores[0], dtype=torch.bool)
        bits = np.unpackbits(np.frombuffer(self._states[row].compute_bitmask(), dtype=np.uint8), bitorder="little")
        allowed = torch.zeros(scores.shape[-1], dtype=torch.bool)
        width = min(len(bits), len(allowed))
        allowed[:width] = torch.from_numpy(bits[:width]).bool()
        return allowed.to(scores.device)
