"""The warpers' cut-offs on what a trace has kept, in the library's order: what surely stays, what surely goes, and what can't be told.

Cut-offs keep the most probable tokens, so what can't be told lies between two lengths of the same list. Sums over what remains are
therefore intervals, and a draw is decided where both ends of the interval put it on the same, surely remaining token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.insight.what_if import Setting

UNKNOWN = -1
MARGIN = 1e-5
"""Relative distance to a threshold below which float32 rounding could decide otherwise: such cases count as unknown."""
TOP_H_CANDIDATES = 100
"""The library's top-h looks at that many tokens (transformers, TopHLogitsWarper)."""


@dataclass(eq=False)
class Tail:
    """Everything outside the trusted candidates: how many at most, bounds of their total weight, and of the largest single one."""

    size: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    largest: NDArray[np.float64]

    def drop(self, where: NDArray[np.bool_]) -> None:
        """The tail is surely excluded there; an unknown part of it elsewhere."""
        for values in (self.size, self.low, self.high, self.largest):
            values[where] = 0.0
        self.low[:] = 0.0

    def limit(self, room: NDArray[np.float64]) -> None:
        """Only its ``room`` largest stay: they hold at least their share of the weight, and at most the largest one each."""
        share = np.where(self.size > room, room / np.maximum(self.size, 1), 1.0)
        self.low *= share
        self.size = np.minimum(self.size, room)
        self.high = np.minimum(self.high, self.size * self.largest)
        self.low = np.minimum(self.low, self.high)


@dataclass(eq=False)
class Left:
    """What is left of each step's candidates. ``weights`` float64 [n, k], falling, relative to the largest. ``kept`` bool [n, k]: may
    still be there; ``sure``: surely is, the beginning of ``kept``. ``doubt`` bool [n]: nothing can be said about this step."""

    weights: NDArray[np.float64]
    kept: NDArray[np.bool_]
    sure: NDArray[np.bool_]
    tail: Tail
    doubt: NDArray[np.bool_]

    @property
    def inside(self) -> NDArray[np.float64]:
        """Weights of what may be there, 0 elsewhere, [n, k]."""
        return np.where(self.kept, self.weights, 0.0)

    @property
    def open(self) -> NDArray[np.bool_]:
        """Steps whose candidates aren't all decided, [n]."""
        undecided: NDArray[np.bool_] = np.asarray((self.kept & ~self.sure).any(axis=1))
        return undecided

    def sums(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the total weight, [n] each."""
        low = np.where(self.sure, self.weights, 0.0).sum(axis=1) + self.tail.low
        low = np.maximum(low, np.where(self.kept[:, 0], self.weights[:, 0], 1e-300))  # one token at least stays
        return low, self.inside.sum(axis=1) + self.tail.high

    def cut(self, sure_in: NDArray[np.bool_], sure_out: NDArray[np.bool_], tail_out: NDArray[np.bool_]) -> None:
        """Apply a cut-off; the first candidate always stays."""
        sure_in[:, 0] = True
        sure_out[:, 0] = False
        before = self.kept.copy()
        self.kept &= ~sure_out
        self.sure &= sure_in & self.kept
        self.tail.drop(tail_out | (self.tail.size == 0))
        self._part_ties(before)

    def _part_ties(self, before: NDArray[np.bool_]) -> None:
        """A cut between equals: which of them stay depends on the order of an unstable sort, so none is sure."""
        for inside in (self.kept.copy(), self.sure.copy()):
            parted = inside[:, :-1] & ~inside[:, 1:] & before[:, 1:] & (self.weights[:, :-1] == self.weights[:, 1:])
            split = parted.any(axis=1)
            value = np.where(split, self.weights[np.arange(len(split)), parted.argmax(axis=1)], np.nan)
            equals = before & (self.weights == value[:, None])
            self.kept |= equals
            self.sure &= ~equals

    def draw(self, draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """Index of the candidate that each draw falls on, [n]; -1 where that can't be told."""
        upper = self.inside.cumsum(axis=1)
        rows, last = np.arange(len(draws)), self.kept.shape[1] - 1
        picks = []
        for total in self.sums():
            position = draws * total
            near = (np.abs(upper - position[:, None]) < MARGIN * total[:, None]).any(axis=1)
            index = (upper <= position[:, None]).sum(axis=1)
            known = ~near & (index <= last) & self.sure[rows, np.minimum(index, last)]
            picks.append(np.where(known, index, UNKNOWN))
        agreed = (picks[0] == picks[1]) & ~self.doubt
        return np.where(agreed, picks[0], UNKNOWN)


def _top_h(left: Left, new: Setting) -> None:
    """Nguyen et al. 2025 as in the library: the longest prefix whose entropy is at most top_h times that of the first 100."""
    if new.top_h is None:
        return
    weights, kept, tail = left.weights, left.kept, left.tail
    more = np.clip(TOP_H_CANDIDATES - kept.sum(axis=1), 0, None)
    more = np.minimum(more, tail.size)
    share = np.where(tail.size > 0, more / np.maximum(tail.size, 1), 0.0)
    part = Tail(more, tail.low * share, np.minimum(tail.high, more * tail.largest), tail.largest)
    low, high = _entropy(weights, kept, part)
    inside = left.inside
    sums = [inside.sum(axis=1) + weight for weight in (part.low, part.high)]
    terms = [_surprise(inside / z[:, None]) for z in sums]
    peak = np.where((weights / sums[0][:, None] > 1 / np.e) & (weights / sums[1][:, None] < 1 / np.e), 1 / np.e, 0.0)
    smallest = np.minimum(*terms).cumsum(axis=1)
    largest = np.maximum(np.maximum(*terms), np.where(kept, peak, 0.0)).cumsum(axis=1)
    sure_in = largest <= (low * new.top_h)[:, None] - MARGIN
    sure_out = smallest > (high * new.top_h)[:, None] + MARGIN
    left.cut(sure_in, sure_out, np.asarray(sure_out.any(axis=1)))


def _top_k(left: Left, new: Setting) -> None:
    """At most k, the lower ids first among equals (app/engine/exact.py)."""
    if not new.top_k:
        return
    width = left.kept.shape[1]
    enough = left.kept[:, new.top_k - 1] if new.top_k <= width else np.zeros(len(left.kept), dtype=bool)
    out = (np.arange(width) >= new.top_k) & enough[:, None]
    left.kept &= ~out
    left.sure &= ~out
    room = np.maximum(new.top_k - left.kept.sum(axis=1), 0).astype(np.float64)
    left.tail.limit(np.where(enough, 0.0, room))


def _top_p(left: Left, new: Setting) -> None:
    """Holtzman et al. 2020: a token stays while those above it hold less than top_p."""
    if new.top_p >= 1.0:
        return
    inside = left.inside
    above = inside.cumsum(axis=1) - inside
    low, high = left.sums()
    sure_in = above / low[:, None] < new.top_p - MARGIN
    sure_out = above / high[:, None] > new.top_p + MARGIN
    left.cut(sure_in, sure_out, inside.sum(axis=1) / high > new.top_p + MARGIN)


def _min_p(left: Left, new: Setting) -> None:
    """Nguyen et al. 2024: probabilities below min_p times the largest are cut."""
    if not new.min_p:
        return
    weights, tail = left.weights, left.tail
    limit = new.min_p * np.maximum(weights[:, :1], tail.largest[:, None] * ~left.kept[:, :1])
    sure_in, sure_out = weights >= limit * (1 + MARGIN), weights < limit * (1 - MARGIN)
    left.cut(sure_in, sure_out, tail.largest < limit[:, 0] * (1 - MARGIN))


def _typical(left: Left, new: Setting) -> None:
    """Meister et al. 2022. Not a prefix by probability: decided only where the tail is out of play already."""
    if new.typical_p >= 1.0:
        return
    kept, doubt = left.kept, left.doubt
    doubt |= (left.tail.high > MARGIN) | left.open
    p = left.inside
    p = p / p.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = np.where(kept, -np.log(p), np.inf)
        entropy = np.nansum(np.where(kept, p * surprise, 0.0), axis=1, keepdims=True)
    distance = np.abs(surprise - entropy)
    order = np.argsort(distance, axis=1, kind="stable")
    mass = np.take_along_axis(p, order, axis=1).cumsum(axis=1)
    doubt |= (np.abs(mass - new.typical_p) < MARGIN).any(axis=1)
    last = np.minimum((mass < new.typical_p).sum(axis=1), p.shape[1] - 1)[:, None]
    sorted_distance = np.take_along_axis(distance, order, axis=1)
    limit = np.take_along_axis(sorted_distance, last, axis=1)
    near = np.isfinite(distance) & (np.abs(distance - limit) < MARGIN) & (distance != limit)
    doubt |= near.any(axis=1)
    keep_one = np.arange(p.shape[1])[None, :] == order[:, :1]
    kept &= (distance <= limit) | keep_one
    left.sure &= kept
    left.tail.drop(np.ones_like(doubt))


def _epsilon(left: Left, new: Setting) -> None:
    """Hewitt et al. 2022: probabilities below ε are cut."""
    if new.epsilon_cutoff:
        limit = np.full(len(left.weights), new.epsilon_cutoff)
        _below(left, limit, limit)


def _eta(left: Left, new: Setting) -> None:
    """Hewitt et al. 2022: the limit follows the entropy, min(ε, √ε · exp(-H))."""
    if new.eta_cutoff:
        left.doubt |= left.open
        low, high = _entropy(left.weights, left.kept, left.tail)
        limits = [np.minimum(new.eta_cutoff, np.sqrt(new.eta_cutoff) * np.exp(-h)) for h in (high, low)]
        _below(left, limits[0], limits[1])


def _below(left: Left, low_limit: NDArray[np.float64], high_limit: NDArray[np.float64]) -> None:
    """Cut probabilities below a limit that lies between two; the most probable token stays, and whatever equals it."""
    low, high = left.sums()
    inside = left.inside
    most = inside == inside.max(axis=1, keepdims=True)
    sure_in = (inside / high[:, None] >= high_limit[:, None] * (1 + MARGIN)) | most
    sure_out = (inside / low[:, None] < low_limit[:, None] * (1 - MARGIN)) & ~most
    left.kept &= ~sure_out
    left.sure &= sure_in & left.kept
    left.tail.drop((left.tail.largest / low < low_limit * (1 - MARGIN)) | (left.tail.size == 0))


def _surprise(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """-p log p, 0 for p = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms: NDArray[np.float64] = np.nan_to_num(-p * np.log(p))
    return terms


def _entropy(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: Tail
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of the entropy in nats of candidates and tail together: H = log Z - Σ w log w / Z.

    For a tail of weight S, H is least when S sits on as few tokens as possible and greatest when it is spread evenly. Over S both have
    one turning point, which is looked at beside the two ends.
    """
    inside = np.where(kept, weights, 0.0).sum(axis=1)
    own = -_surprise(np.where(kept, weights, 0.0)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.nan_to_num(np.log(tail.largest), neginf=0.0)

        def least(s: NDArray[np.float64]) -> NDArray[np.float64]:
            values: NDArray[np.float64] = np.log(inside + s) - (own + s * peak) / (inside + s)
            return values

        def most(s: NDArray[np.float64]) -> NDArray[np.float64]:
            even = np.nan_to_num(s * np.log(s / np.maximum(tail.size, 1)), neginf=0.0)
            values: NDArray[np.float64] = np.log(inside + s) - (own + even) / (inside + s)
            return values

        turns = inside * (peak - 1) - own, np.maximum(tail.size, 1) * np.exp(own / np.maximum(inside, 1e-300))
        ends = [tail.low, tail.high]
        low = np.minimum.reduce([least(s) for s in (*ends, np.clip(turns[0], tail.low, tail.high))])
        high = np.maximum.reduce([most(s) for s in (*ends, np.clip(turns[1], tail.low, tail.high))])
    return low - MARGIN, high + MARGIN


Rule: TypeAlias = Callable[[Left, "Setting"], None]
RULES: tuple[Rule, ...] = (_top_h, _top_k, _top_p, _min_p, _typical, _epsilon, _eta)
"""In the order in which the library applies them."""
