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
from app.insight.cutoffs import MARGIN, RULES, UNKNOWN, Left, Tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.conversation import Json
    from app.engine.trace import Trace


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
        left = Left(weights, kept, kept.copy(), tail, np.zeros(len(trace), dtype=bool))
        for rule in RULES:
            rule(left, new)
        choice = left.draw(trace.draws)
        kept = left.kept | (unsure & (tail.size > 0)[:, None])
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
) -> tuple[NDArray[np.float64], NDArray[np.bool_], Tail]:
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
    tail = Tail(size, *_tempered(low, high, size, largest, q), largest**q)
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
