"""What another setting would have chosen, computed from a trace without the model, and honest about how far that can be known.

Each token's candidates are known exactly, the rest of the vocabulary (the tail) by its total probability, its size and an upper bound of
its logits. Changing the temperature makes the tail's weight an interval; every cut-off is decided for both ends of it. Where they
agree the answer is exact; where they don't, or where the draw falls into the tail, it is unknown. Nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from app.engine.trace import WARPERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.conversation import Json
    from app.engine.trace import Trace

UNKNOWN = -1
MARGIN = 1e-5
"""Relative distance to a threshold below which float32 rounding could decide otherwise: such cases count as unknown."""
TOP_H_CANDIDATES = 100
"""The library's top-h looks at that many tokens (transformers, TopHLogitsWarper)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters that can be moved on a finished reply; ``do_sample`` off means the most probable token."""

    do_sample: bool = True
    temperature: float = 1.0
    top_h: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    repetition_penalty: float = 1.0

    @classmethod
    def of(cls, effective: Mapping[str, Json]) -> Setting:
        """The part of a run's effective values that can be moved."""
        return cls(**{name: effective[name] for name in cls.__slots__ if effective.get(name) is not None})

    def moved(self, changes: Mapping[str, Json]) -> Setting:
        """With some values changed; temperature 0 means greedy."""
        new = replace(self, **changes)
        return replace(new, do_sample=False, temperature=1.0) if new.temperature == 0 else new


@dataclass(frozen=True, eq=False)
class Prediction:
    """``choice`` int32 [n]: the token another setting gives with the same draw, -1 where that can't be known.

    ``kept`` bool [n, k]: candidates that would remain (undecided ones count as kept). ``same`` bool [n]: the choice is the
    recorded one. ``first_change``: the first token that surely differs while everything before it surely is the same, else None.
    ``exact_until``: number of tokens from the start for which the answer is exact (behind a change the text is another one).
    """

    choice: NDArray[np.int32]
    kept: NDArray[np.bool_]
    same: NDArray[np.bool_]
    first_change: int | None
    exact_until: int
    reason: str = ""


@dataclass(eq=False)
class _Tail:
    """Everything outside the trusted candidates: how many, bounds of their total weight, and of the largest single one."""

    size: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    largest: NDArray[np.float64]

    def drop(self, where: NDArray[np.bool_]) -> None:
        """The tail is surely excluded there."""
        for values in (self.size, self.low, self.high, self.largest):
            values[where] = 0.0

    def limit(self, room: NDArray[np.float64]) -> None:
        """Only its ``room`` largest stay: they hold at least their share of the weight, and at most the largest one each."""
        share = np.where(self.size > room, room / np.maximum(self.size, 1), 1.0)
        self.low *= share
        self.size = np.minimum(self.size, room)
        self.high = np.minimum(self.high, self.size * self.largest)
        self.low = np.minimum(self.low, self.high)

    def cut(self, where: NDArray[np.bool_]) -> None:
        """An unknown part of the tail is excluded there."""
        self.low[where] = 0.0


def predict(trace: Trace, old: Setting, new: Setting, prompt_ids: Sequence[int] = ()) -> Prediction:
    """What ``new`` would have chosen at each token of a reply made with ``old``, given the reply up to there."""
    if new.do_sample and np.isnan(trace.draws).any():
        return _nothing(trace, "This reply was greedy: it has no random draws that could be used again.")
    base, tail_max, total, reason = _base(trace, old, new, prompt_ids)
    if reason:
        return _nothing(trace, reason)
    scaled = base.astype(np.float32) / np.float32(new.temperature if new.do_sample else 1.0)  # as the library does it
    order = np.lexsort((trace.ids, -scaled), axis=1)
    logits = np.take_along_axis(scaled, order, axis=1).astype(np.float64)
    ids = np.take_along_axis(trace.ids, order, axis=1)
    weights, kept, tail = _weigh(trace, logits, tail_max, total, new.temperature if new.do_sample else 1.0)
    unsure = np.isfinite(logits) & ~kept  # no larger than some token outside: they share the tail's fate
    if new.do_sample:
        doubt = np.zeros(len(trace), dtype=bool)
        for rule in (_top_h, _top_k, _top_p, _min_p, _typical, _epsilon, _eta):
            rule(weights, kept, tail, new, doubt)
        choice = _draw(weights, kept, tail, trace.draws, doubt)
        kept = kept | (unsure & (tail.size > 0)[:, None])
    else:
        clear = kept[:, 0] & (logits[:, 0] > np.where(kept.shape[1] > 1, logits[:, 1], -np.inf))
        choice = np.where(clear, 0, UNKNOWN)
        kept = kept & (np.arange(kept.shape[1]) == 0)
    picked = np.where(choice >= 0, np.take_along_axis(ids, np.maximum(choice, 0)[:, None], axis=1)[:, 0], UNKNOWN)
    back = np.argsort(order, axis=1, kind="stable")
    return _conclude(trace, picked.astype(np.int32), np.take_along_axis(kept, back, axis=1))


def _nothing(trace: Trace, reason: str) -> Prediction:
    n = len(trace)
    none, everything = np.full(n, UNKNOWN, np.int32), np.ones(trace.ids.shape, bool)
    return Prediction(none, everything, np.zeros(n, bool), None, 0, reason)


def _conclude(trace: Trace, choice: NDArray[np.int32], kept: NDArray[np.bool_]) -> Prediction:
    same = choice == trace.chosen
    other = np.flatnonzero(~same)
    if not len(other):
        return Prediction(choice, kept, same, None, len(trace))
    first = int(other[0])
    if choice[first] == UNKNOWN:
        reason = f"From token {first + 1} on it can't be known from the stored candidates."
        return Prediction(choice, kept, same, None, first, reason)
    return Prediction(choice, kept, same, first, first + 1)


# -- the distribution before the warpers -----------------------------------------------------------------------------------


def _base(
    trace: Trace, old: Setting, new: Setting, prompt_ids: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64]], str]:
    """Candidates' logits, the tail's largest one, bounds of log-sum-exp over everything, and why it can't be known."""
    recorded = trace.base if trace.base.shape[1] else trace.raw
    known = trace.base_logsumexp.astype(np.float64)
    if new.repetition_penalty == old.repetition_penalty:
        return recorded.astype(np.float64), trace.tail_max.astype(np.float64), (known, known), ""
    others = [
        s
        for s in trace.stages
        if s not in WARPERS and s not in ("RepetitionPenaltyLogitsProcessor", "LogitNormalization")
    ]
    if others:
        named = ", ".join(others)
        none = trace.raw.astype(np.float64)
        return none, none[:, -1], (known, known), f"Another repetition penalty can't be computed beside {named}."
    return _penalized(trace, new.repetition_penalty, prompt_ids)


def _penalized(
    trace: Trace, penalty: float, prompt_ids: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[NDArray[np.float64], NDArray[np.float64]], str]:
    """The rule of the library's RepetitionPenaltyLogitsProcessor (Keskar et al. 2019) on the candidates; the tail by bounds."""
    raw, seen = trace.raw, _seen(trace, prompt_ids)
    changed = np.where(raw < 0, raw * np.float32(penalty), raw / np.float32(penalty))
    base = np.where(seen, changed, raw).astype(np.float64)
    outside = raw[:, -1].astype(np.float64)
    tail_weight = np.exp(trace.logsumexp.astype(np.float64)) - np.exp(raw.astype(np.float64)).sum(axis=1)
    tail_weight = np.maximum(tail_weight, 0.0)
    candidates = np.exp(base).sum(axis=1)
    if penalty >= 1:  # seen tokens only lose
        return base, outside, (np.log(candidates), np.log(candidates + tail_weight)), ""
    raised = np.maximum(outside, np.where(outside > 0, outside / penalty, outside * penalty))
    most = np.minimum(trace.vocabulary - trace.k, 1e9) * np.exp(raised)
    return base, raised, (np.log(candidates + tail_weight), np.log(candidates + np.maximum(most, tail_weight))), ""


def _seen(trace: Trace, prompt_ids: Sequence[int]) -> NDArray[np.bool_]:
    """Bool [n, k]: the candidate occurs in the prompt or earlier in the reply."""
    first: dict[int, int] = dict.fromkeys(prompt_ids, -1)
    for position, token in enumerate(trace.chosen.tolist()):
        first.setdefault(token, position)
    never = len(trace)
    when = np.array([[first.get(token, never) for token in row] for row in trace.ids.tolist()])
    seen: NDArray[np.bool_] = when < np.arange(len(trace))[:, None]
    return seen


def _weigh(
    trace: Trace,
    logits: NDArray[np.float64],
    tail_max: NDArray[np.float64],
    total: tuple[NDArray[np.float64], NDArray[np.float64]],
    temperature: float,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], _Tail]:
    """Weights relative to the most probable token after the temperature. Candidates not above the whole tail join the tail."""
    q = 1.0 / temperature
    top = np.maximum(logits[:, :1], tail_max[:, None] * q)  # already divided by the temperature
    kept = (logits > tail_max[:, None] * q + MARGIN) & np.isfinite(logits)
    size = trace.vocabulary - kept.sum(axis=1).astype(np.float64)
    inside = np.where(kept, np.exp((logits - top) * temperature), 0.0).sum(axis=1)
    low, high = (np.exp(bound - top[:, 0] * temperature) for bound in total)
    # log-sum-exp was computed and stored in float32: the tail's weight is known to about that precision
    low, high = np.maximum(low * (1 - MARGIN) - inside, 0.0), np.maximum(high * (1 + MARGIN) - inside, 0.0)
    largest = np.exp(np.where(np.isfinite(tail_max), tail_max - top[:, 0] * temperature, -np.inf))
    high = np.minimum(high, size * largest)
    low = np.minimum(low, high)
    tail = _Tail(size, *_tempered(low, high, size, largest, q), largest**q)
    return np.where(kept, np.exp(logits - top), 0.0), kept, tail


def _tempered(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    size: NDArray[np.float64],
    largest: NDArray[np.float64],
    q: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of the sum of y^q over ``size`` weights y in [0, largest] whose sum lies in [low, high] (convexity)."""
    if q == 1.0:
        return low, high
    with np.errstate(divide="ignore", invalid="ignore"):
        even_low, even_high = (size * (s / np.maximum(size, 1)) ** q for s in (low, high))
        packed_low, packed_high = (np.where(largest > 0, s * largest ** (q - 1), 0.0) for s in (low, high))
    return (even_low, packed_high) if q > 1 else (packed_low, np.minimum(even_high, size * largest**q))


# -- the warpers, in the library's order; each narrows ``kept`` and the tail, or doubts ----------------------------------------


def _sums(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    inside = np.where(kept, weights, 0.0).sum(axis=1)
    return inside + tail.low, inside + tail.high


def _split_ties(weights: NDArray[np.float64], before: NDArray[np.bool_], after: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bool [n]: the cut falls between equals. Which of them stays depends on the order of an unstable sort."""
    parted = after[:, :-1] & ~after[:, 1:] & before[:, 1:] & (weights[:, :-1] == weights[:, 1:])
    split: NDArray[np.bool_] = parted.any(axis=1)
    return split


def _decide(
    kept: NDArray[np.bool_],
    tail: _Tail,
    sure_in: NDArray[np.bool_],
    sure_out: NDArray[np.bool_],
    tail_in: NDArray[np.bool_],
    tail_out: NDArray[np.bool_],
    doubt: NDArray[np.bool_],
) -> None:
    """Apply a cut-off: the first candidate always stays; whatever is neither surely in nor surely out is a doubt."""
    sure_in[:, 0] = True
    sure_out[:, 0] = False
    doubt |= (kept & ~sure_in & ~sure_out).any(axis=1)
    kept &= ~sure_out
    tail.drop(tail_out)
    tail.cut(~tail_in & ~tail_out)


def _top_h(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail, new: Setting, doubt: NDArray[np.bool_]
) -> None:
    """Nguyen et al. 2025 as in the library: the longest prefix whose entropy is at most top_h times that of the first 100."""
    if new.top_h is None:
        return
    more = np.clip(TOP_H_CANDIDATES - kept.sum(axis=1), 0, None)
    more = np.minimum(more, tail.size)
    share = np.where(tail.size > 0, more / np.maximum(tail.size, 1), 0.0)
    part = _Tail(more, tail.low * share, np.minimum(tail.high, more * tail.largest), tail.largest)
    low, high = _entropy(weights, kept, part)
    z_low, z_high = _sums(weights, kept, part)
    terms = [_surprise(np.where(kept, weights, 0.0) / z[:, None]) for z in (z_low, z_high)]
    peak = np.where((weights / z_low[:, None] > 1 / np.e) & (weights / z_high[:, None] < 1 / np.e), 1 / np.e, 0.0)
    smallest = np.minimum(*terms).cumsum(axis=1)
    largest = np.maximum(np.maximum(*terms), np.where(kept, peak, 0.0)).cumsum(axis=1)
    sure_in = largest <= (low * new.top_h)[:, None] - MARGIN
    sure_out = smallest > (high * new.top_h)[:, None] + MARGIN
    out = sure_out.any(axis=1) if kept.shape[1] else doubt
    before = kept.copy()
    _decide(kept, tail, sure_in, sure_out, np.zeros_like(doubt), out | (tail.size == 0), doubt)
    doubt |= _split_ties(weights, before, kept)


def _top_k(
    _weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail, new: Setting, doubt: NDArray[np.bool_]
) -> None:
    if not new.top_k:
        return
    if new.top_k > kept.shape[1]:
        tail.limit(new.top_k - kept.sum(axis=1).astype(np.float64))
        return
    enough = kept[:, new.top_k - 1]
    out = (np.arange(kept.shape[1]) >= new.top_k) & enough[
        :, None
    ]  # at most k, the lower ids first (app/engine/exact.py)
    doubt |= ~enough & (tail.size > 0)
    _decide(kept, tail, ~out, out, np.zeros_like(doubt), enough, doubt)


def _top_p(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail, new: Setting, doubt: NDArray[np.bool_]
) -> None:
    """Holtzman et al. 2020: a token stays while those above it hold less than top_p."""
    if new.top_p >= 1.0:
        return
    inside = np.where(kept, weights, 0.0)
    above = inside.cumsum(axis=1) - inside
    low, high = _sums(weights, kept, tail)
    sure_in = above / low[:, None] < new.top_p - MARGIN
    sure_out = above / high[:, None] > new.top_p + MARGIN
    everything = inside.sum(axis=1)
    tail_out = everything / high > new.top_p + MARGIN
    before = kept.copy()
    _decide(kept, tail, sure_in, sure_out, np.zeros_like(doubt), tail_out | (tail.size == 0), doubt)
    doubt |= _split_ties(weights, before, kept)


def _min_p(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail, new: Setting, doubt: NDArray[np.bool_]
) -> None:
    if not new.min_p:
        return
    limit = new.min_p * np.maximum(weights[:, :1], tail.largest[:, None] * ~kept[:, :1])
    sure_in, sure_out = weights >= limit * (1 + MARGIN), weights < limit * (1 - MARGIN)
    _decide(kept, tail, sure_in, sure_out, np.zeros_like(doubt), tail.largest < limit[:, 0] * (1 - MARGIN), doubt)


def _typical(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail, new: Setting, doubt: NDArray[np.bool_]
) -> None:
    """Meister et al. 2022. Not a prefix by probability: decided only where the tail is out of play already."""
    if new.typical_p >= 1.0:
        return
    doubt |= tail.high > MARGIN
    p = np.where(kept, weights, 0.0)
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
    tail.drop(np.ones_like(doubt))


def _epsilon(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail, new: Setting, doubt: NDArray[np.bool_]
) -> None:
    """Hewitt et al. 2022: probabilities below ε are cut."""
    if new.epsilon_cutoff:
        limit = np.full(len(weights), new.epsilon_cutoff)
        _below(weights, kept, tail, limit, limit, doubt)


def _eta(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail, new: Setting, doubt: NDArray[np.bool_]
) -> None:
    """Hewitt et al. 2022: the limit follows the entropy, min(ε, √ε · exp(-H))."""
    if new.eta_cutoff:
        low, high = _entropy(weights, kept, tail)
        limits = [np.minimum(new.eta_cutoff, np.sqrt(new.eta_cutoff) * np.exp(-h)) for h in (high, low)]
        _below(weights, kept, tail, limits[0], limits[1], doubt)


def _below(
    weights: NDArray[np.float64],
    kept: NDArray[np.bool_],
    tail: _Tail,
    low_limit: NDArray[np.float64],
    high_limit: NDArray[np.float64],
    doubt: NDArray[np.bool_],
) -> None:
    low, high = _sums(weights, kept, tail)
    sure_in = weights / high[:, None] >= high_limit[:, None] * (1 + MARGIN)
    sure_out = weights / low[:, None] < low_limit[:, None] * (1 - MARGIN)
    first = np.argmax(np.where(kept, weights, -1.0), axis=1)
    sure_in[np.arange(len(weights)), first] = True
    sure_out[np.arange(len(weights)), first] = False
    tail_out = (tail.largest / low < low_limit * (1 - MARGIN)) | (tail.size == 0)
    doubt |= (kept & ~sure_in & ~sure_out).any(axis=1)
    kept &= ~sure_out
    tail.drop(tail_out)
    tail.cut(~tail_out)


def _surprise(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """-p log p, 0 for p = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms: NDArray[np.float64] = np.nan_to_num(-p * np.log(p))
    return terms


def _entropy(
    weights: NDArray[np.float64], kept: NDArray[np.bool_], tail: _Tail
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


# -- the draw ------------------------------------------------------------------------------------------------------------------


def _draw(
    weights: NDArray[np.float64],
    kept: NDArray[np.bool_],
    tail: _Tail,
    draws: NDArray[np.float64],
    doubt: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Index of the candidate that each draw falls on, by falling probability; -1 where the two ends of the doubt disagree."""
    inside = np.where(kept, weights, 0.0)
    upper = inside.cumsum(axis=1)
    low, high = _sums(weights, kept, tail)
    picks = []
    for total in (low, high):
        position = draws * total
        near = (np.abs(upper - position[:, None]) < MARGIN * total[:, None]).any(axis=1)
        index = (upper <= position[:, None]).sum(axis=1)
        picks.append(np.where(near | (index >= kept.shape[1]), UNKNOWN, index))
    agreed = (picks[0] == picks[1]) & ~doubt
    return np.where(agreed, picks[0], UNKNOWN)
