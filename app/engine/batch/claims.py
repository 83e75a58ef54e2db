"""Whether a reply that was computed beside others is what it would have been alone: the claim, and what came of it.

A single run goes through the reply's own tokens again and says at each what it would have taken. Up to the first difference it is exactly
the run that the same seed gives alone; behind it, it tells how often both ways of computing choose alike on the same text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.run import RunRequest


@dataclass(frozen=True, slots=True)
class Alone:
    """A reply of ``tokens`` new tokens (what it took over from another one not counted), held against a single run with the same seed.

    ``same``: at so many of them the single run takes the same token. ``parts_at``: index of the first at which it takes another one,
    ``other``.
    """

    tokens: int
    same: int
    parts_at: int | None = None
    other: int | None = None

    @property
    def share(self) -> float:
        """The part of the positions at which both agree."""
        return self.same / self.tokens if self.tokens else 1.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A finished reply: the ``request`` that would repeat it alone, its new tokens, and the model (its fingerprint's name) they are of."""

    request: RunRequest
    ids: tuple[int, ...]
    model: str | None = None


def agreement(ids: Sequence[int], chosen: Sequence[int]) -> Alone:
    """Hold a reply's tokens against what a single run would have taken at each of them."""
    pairs = list(zip(ids, chosen, strict=True))
    other = next(((at, would) for at, (token, would) in enumerate(pairs) if token != would), (None, None))
    return Alone(len(pairs), sum(token == would for token, would in pairs), *other)


def claim_of(replay: RunRequest, ids: tuple[int, ...], model: str | None) -> Claim:
    """The claim that a replay, taken by itself and without a trace, gives ``ids``."""
    asked = {**replay.requested, "trace_top_k": 0}
    return Claim(replace(replay, requested=asked, places=(), library_steps=None), ids, model)
