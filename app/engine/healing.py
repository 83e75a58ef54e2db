"""Token healing: the last token of a typed beginning is taken back and chosen again among all tokens that start alike.

The library's own version decodes the whole prompt without its control tokens and so would throw a chat template away; here only the
last token is touched, and the model is asked once, with the prompt read into the same prefix cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import LogitsProcessor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from transformers import PreTrainedTokenizerBase

FAVOUR = 1.0
"""Added to the logit of the token that was typed, so that "http" doesn't turn into "https" at the slightest hint."""


class StartsAlike(LogitsProcessor):
    """Lets through the tokens in ``alike`` only, the typed one a little favoured."""

    def __init__(self, alike: Sequence[int], typed: int) -> None:
        self._alike = list(alike)
        self._typed = typed

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``scores``: [batch, vocabulary]; returns a new tensor of that shape."""
        import torch

        kept = torch.full_like(scores, float("-inf"))
        kept[:, self._alike] = scores[:, self._alike]
        kept[:, self._typed] += FAVOUR
        return kept


def alike(tokenizer: PreTrainedTokenizerBase, token: int) -> list[int]:
    """All ordinary tokens whose text begins with this one's, itself included."""
    start: Any = tokenizer.convert_ids_to_tokens(token)
    added = tokenizer.added_tokens_decoder
    return [i for text, i in tokenizer.get_vocab().items() if text.startswith(start) and i not in added]


def heal(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], choose: Callable[[Sequence[int], StartsAlike], int]
) -> tuple[tuple[int, ...], str]:
    """The ids with the last one chosen again, and the text by which that is longer. ``choose`` gives the next token of a prompt."""
    *before, typed = ids
    candidates = alike(tokenizer, typed)
    if len(candidates) < 2 or not before:
        return tuple(ids), ""
    chosen = choose(before, StartsAlike(candidates, typed))
    short, long = (str(tokenizer.decode([i], clean_up_tokenization_spaces=False)) for i in (typed, chosen))
    if not long.startswith(short):  # a token that is only part of a character
        return tuple(ids), ""
    return (*before, chosen), long[len(short) :]
