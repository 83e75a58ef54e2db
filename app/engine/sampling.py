"""Choosing a token: the most probable one, or by a recorded draw.

Sampling inverts the cumulative distribution, tokens ordered from the most to the least probable (the lower id first among equals). A run's
draws come from a generator of its own, so a seed decides its text whatever else runs; and because the draw is one number in
[0, 1), what another setting would have chosen with the same draw can be computed afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.ranking import array_of, largest
from app.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray

SEED_LIMIT = 2**32
"""Seeds are below this."""

NOTHING_LEFT = (
    "every token is excluded: the settings that forbid tokens (bad_words_ids, suppress_tokens, no_repeat_ngram_size, an output "
    "format, …) leave nothing to choose from. Relax one of them."
)

NOT_NUMBERS = (
    "The model produced numbers that are not numbers (NaN) at token {step}. Switch remove_invalid_values on, or load the model "
    "with another compute dtype."
)

NEAR = 256
"""Candidates looked at first; the whole vocabulary is sorted only when the draw falls beyond them."""


def generators(seed: int, count: int, position: int = 0) -> list[torch.Generator]:
    """One generator per sequence; sequence ``i`` draws as a run of its own with seed ``seed + i`` would.

    ``position``: draws already used, so that a reply that goes on from its first tokens draws as if it had never been cut.
    """
    import torch

    made = [torch.Generator().manual_seed((seed + index) % SEED_LIMIT) for index in range(count)]
    for _ in range(position):
        draws(made)
    return made


def draws(sources: Sequence[torch.Generator]) -> list[float]:
    """The next number in [0, 1) of each generator, as float64."""
    import torch

    return [torch.rand((), generator=g, dtype=torch.float64).item() for g in sources]


def pick(scores: torch.Tensor, draw: float) -> int:
    """The token that ``draw`` falls on. ``scores``: float32 [vocabulary], processed logits, -inf for what is excluded."""
    import numpy as np

    row = array_of(scores)
    possible = np.flatnonzero(row > -np.inf)
    chances = softmax(row[possible])
    for width in (min(NEAR, len(possible)), len(possible)):
        places = largest(row[possible], width)
        position = int(np.searchsorted(chances[places].cumsum(), draw, side="right"))
        if position < width and chances[places[position]] > 0:
            return int(possible[places[position]])
    return int(possible[chances.argmax()])  # the draw fell into the rounding error at the very end


def softmax(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Of float32 [n], in 64 bits."""
    import torch

    chances: NDArray[np.float64] = torch.softmax(torch.from_numpy(values), dim=0, dtype=torch.float64).numpy()
    return chances


def check(scores: torch.Tensor, logits: torch.Tensor, step: int) -> None:
    """Raise RunFailed with a reason when nothing can be chosen. ``scores``: [batch, vocabulary], made from ``logits``."""
    import torch

    best = scores.max(dim=-1).values
    if torch.isfinite(best).all():
        return
    if torch.isnan(best).any() or torch.isnan(logits).any():
        raise RunFailed(NOT_NUMBERS.format(step=step))
    if torch.isneginf(best).any():
        raise RunFailed(f"At token {step} {NOTHING_LEFT}")


class NumbersOnly:
    """Put before the processors of the library's own loops, which would go on with NaN and choose anything at all."""

    def __init__(self, prompt_length: int) -> None:
        self._prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``scores``: [batch, vocabulary], returned as they are. Raises RunFailed when one of them is NaN."""
        if scores.isnan().any():
            raise RunFailed(NOT_NUMBERS.format(step=input_ids.shape[1] - self._prompt_length + 1))
        return scores
