"""Processors of the library made to keep their word exactly."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import LogitsProcessor, LogitsProcessorList
from transformers import TopKLogitsWarper as LibrarysTopK
from transformers import TopPLogitsWarper as LibrarysTopP

from app.engine.barring import OURS
from app.engine.ranking import array_of, largest
from app.engine.sampling import softmax

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

FIRST = 256
"""Most probable tokens among which the limit of top_p is looked for first."""
NEAR = 1e-4
"""Sums in another order, and in 32 bits, differ by far less."""


class TopKLogitsWarper(LibrarysTopK):
    """At most k tokens, also where several share the k-th place: then the lower ids stay, as when a token is drawn.

    Logits computed in bfloat16 tie often, and the library keeps all that tie: with k = 1 a draw would not be greedy.
    """

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``scores``: float32 [batch, vocabulary]; returns a new tensor of that shape."""
        import torch

        kept = torch.full_like(scores, self.filter_value)
        for row, values in zip(kept, scores, strict=True):
            ids = torch.from_numpy(largest(array_of(values), self.top_k)).to(scores.device)
            row[ids] = values[ids]
        return kept


class TopPLogitsWarper(LibrarysTopP):
    """The same tokens as the library's (where several share the last place the lower ids stay), on a CPU in a fraction of the time: the few
    most probable tokens nearly always decide, and where they don't, only the logits are sorted, not the ids with them."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``scores``: float32 [batch, vocabulary]; returns a new tensor of that shape."""
        import torch

        if scores.device.type != "cpu":
            cut: torch.Tensor = super().__call__(input_ids, scores)
            return cut
        return torch.stack([self._cut(row) for row in scores])

    def _cut(self, row: torch.Tensor) -> torch.Tensor:
        """``row``: float32 [vocabulary]; sums are the library's, from the least probable token on."""
        import torch

        values = array_of(row)
        kept = self._among_the_first(values)
        if kept is None:
            return self._of_all(row)
        cut = torch.full_like(row, self.filter_value)
        ids = torch.from_numpy(kept)
        cut[ids] = row[ids]
        return cut

    def _among_the_first(self, values: NDArray[np.float32]) -> NDArray[Any] | None:
        """The ids that stay; None where the first FIRST don't reach the limit, or one is so near to it that rounding would decide."""
        ids = largest(values, FIRST)
        chances = softmax(values)[ids]
        itself_and_below = 1 - (chances.cumsum() - chances)
        limit = 1 - self.top_p
        if len(ids) < FIRST or not itself_and_below[-1] < limit - NEAR or (abs(itself_and_below - limit) < NEAR).any():
            return None
        count = max(int(np.count_nonzero(itself_and_below > limit)), self.min_tokens_to_keep)
        kept: NDArray[Any] = ids[:count]
        return kept

    def _of_all(self, row: torch.Tensor) -> torch.Tensor:
        import torch

        values = array_of(row)
        rising = np.sort(values)
        below = torch.from_numpy(rising).softmax(dim=-1).cumsum(dim=-1).numpy()
        removed = min(int(np.count_nonzero(below <= 1 - self.top_p)), len(rising) - self.min_tokens_to_keep)
        if removed <= 0:
            return row.clone()
        last = rising[removed]
        gone = values < last
        if surplus := removed - int(np.count_nonzero(gone)):
            gone[np.flatnonzero(values == last)[-surplus:]] = True
        return row.masked_fill(torch.from_numpy(gone), self.filter_value)


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
    """The same processors in the same order, the ones above and those of ``barring`` in place of the library's."""
    return LogitsProcessorList(_exact(processor) for processor in processors)


def _exact(processor: Any) -> Any:
    if type(processor) is LibrarysTopK:
        return TopKLogitsWarper(processor.top_k, processor.filter_value, processor.min_tokens_to_keep)
    if type(processor) is LibrarysTopP:
        return TopPLogitsWarper(processor.top_p, processor.filter_value, processor.min_tokens_to_keep)
    if mine := OURS.get(type(processor)):
        same = copy(processor)
        same.__class__ = mine
        return same
    return processor
