"""Processors of the library made to keep their word exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import LogitsProcessor, LogitsProcessorList
from transformers import TopKLogitsWarper as LibrarysTopK

if TYPE_CHECKING:
    import torch


class TopKLogitsWarper(LibrarysTopK):
    """At most k tokens, also where several share the k-th place: then the lower ids stay, as when a token is drawn.

    Logits computed in bfloat16 tie often, and the library keeps all that tie: with k = 1 a draw would not be greedy.
    """

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``scores``: float32 [batch, vocabulary]; returns a new tensor of that shape."""
        k = min(self.top_k, scores.shape[-1])
        last = scores.topk(k).values[:, -1:]
        above, tied = scores > last, scores == last
        room = k - above.sum(dim=-1, keepdim=True)
        kept = above | (tied & (tied.cumsum(dim=-1) <= room))
        return scores.masked_fill(~kept, self.filter_value)


class ForcedFirstToken(LogitsProcessor):
    """forced_bos_token_id where the library's own processor does nothing: it waits for a sequence of one token, and a model without
    an encoder has read a whole prompt by then."""

    def __init__(self, token: int, start: int) -> None:
        self._token = token
        self._start = start

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``scores``: [batch, vocabulary]; at the reply's first position a new tensor that leaves one token."""
        if input_ids.shape[1] != self._start:
            return scores
        forced = scores.new_full(scores.shape, float("-inf"))
        forced[:, self._token] = 0.0
        return forced


def exact(processors: LogitsProcessorList) -> LogitsProcessorList:
    """The same processors in the same order, the ones above in place of the library's."""
    return LogitsProcessorList(
        TopKLogitsWarper(p.top_k, p.filter_value, p.min_tokens_to_keep) if type(p) is LibrarysTopK else p
        for p in processors
    )
