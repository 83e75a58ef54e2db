"""Records each choice of the decode loop while it is made, cheaply: one pass over the vocabulary for what changes all of it, none once
a warper has left few candidates.

All of it runs in this thread, on views of the loop's own numbers: at the size of one row of logits, handing work to other threads
costs more than the work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from app.engine.ranking import array_of
from app.engine.rows import NumpyRows
from app.engine.trace import DTYPES, NOT_REMOVED, WARPERS, Trace

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from app.engine.rows import Rows

FEW = 4096
"""So many candidates left are remembered by their ids; the warpers behind are then read at these places only."""
_NONE = np.zeros(0, np.float32)


@dataclass
class Tracer:
    """An ``Observer`` of the decode loop that records ``count`` sequences with ``k`` candidates each. ``rows`` does the sums."""

    k: int
    count: int = 1
    rows: Rows = field(default_factory=NumpyRows)
    _stages: list[str] = field(default_factory=list)
    _vocabulary: int = 0
    _steps: list[list[dict[str, Any]]] = field(default_factory=list)
    _now: list[_Step] = field(default_factory=list)
    _reached: int = 0

    def outputs(self, outputs: Any) -> None:
        """Nothing of the model's other outputs is kept."""

    def begin(self, logits: torch.Tensor) -> None:
        """Record the raw distribution. ``logits``: float32 [count, vocabulary]."""
        self._vocabulary, self._reached = logits.shape[-1], 0
        self._now = [_Step(row, self.k, self.rows) for row in array_of(logits)]

    def stage(self, name: str, scores: torch.Tensor) -> None:
        """Record what a processor left. ``scores``: float32 [count, vocabulary]."""
        if self._reached == len(self._stages):
            self._stages.append(name)
        self._reached += 1
        shaped = not WARPERS.isdisjoint(self._stages[: self._reached])
        for step, row in zip(self._now, array_of(scores), strict=True):
            step.stage(row, only_excludes=name in WARPERS)
            if not shaped:
                step.rebase(row)

    def chosen(self, scores: torch.Tensor, tokens: list[int], draws: list[float]) -> None:
        """Record the choice, and finish the step."""
        numbers = draws or [float("nan")] * self.count
        rows = zip(self._now, array_of(scores), tokens, numbers, strict=True)
        self._steps.append([step.finish(row, token, draw) for step, row, token, draw in rows])
        self._now = []

    def trace(self, index: int, length: int) -> Trace | None:
        """The trace of one sequence, cut to its ``length`` tokens; None when nothing was recorded."""
        if not self._steps or not length:
            return None
        steps = [step[index] for step in self._steps[:length]]
        arrays: dict[str, Any] = {
            name: np.asarray([step[name] for step in steps], dtype) for name, dtype in DTYPES.items()
        }
        return Trace(tuple(self._stages), self._vocabulary, **arrays)


class _Step:
    """One choice of one sequence among ``logits``, float32 [vocabulary], of which ``k`` are looked at closely."""

    def __init__(self, logits: NDArray[np.float32], k: int, rows: Rows) -> None:
        ids = rows.largest(logits, k + 1)  # one more, for what the largest one outside is
        self.rows, self.logits, self.ids, self.values = rows, logits, ids[:k], logits[ids[:k]]
        self.outside = float(logits[ids[k]]) if len(ids) > k else -np.inf
        total, mean, _ = rows.sums(logits)
        entropy = total - mean if math.isfinite(total) else math.nan
        self.found: dict[str, Any] = {"ids": self.ids, "raw": self.values, "logsumexp": total, "entropy": entropy}
        self.found |= {"base": _NONE, "base_logsumexp": total, "tail_max": self.outside}
        self.removed_by = np.full(len(self.ids), NOT_REMOVED, np.uint8)
        self.left: list[int] = []
        self.totals: list[float] = []
        self.candidates = self.values
        self.inside: NDArray[Any] | None = None

    def stage(self, scores: NDArray[np.float32], *, only_excludes: bool) -> None:
        """What a processor left; ``only_excludes``: it brings no excluded token back."""
        self.candidates = scores[self.ids]
        if self.candidates.min(initial=0.0) == -np.inf:
            gone = (self.candidates == -np.inf) & (self.removed_by == NOT_REMOVED)
            self.removed_by[gone] = min(len(self.left), NOT_REMOVED - 1)
        self._sum(scores, only_excludes=only_excludes)

    def _sum(self, scores: NDArray[np.float32], *, only_excludes: bool) -> None:
        """Count what is possible, and sum it up."""
        if self.inside is not None and only_excludes:
            self.inside = self.inside[scores[self.inside] > -np.inf]
            total, _, possible = self.rows.sums(scores[self.inside])
        else:
            total, _, possible = self.rows.sums(scores)
            self.inside = np.flatnonzero(scores > -np.inf) if possible <= FEW else None
        self.left.append(possible)
        self.totals.append(total)

    def rebase(self, scores: NDArray[np.float32]) -> None:
        """These scores are what the warpers start from."""
        scores[self.ids] = -np.inf  # for a moment: a copy of the whole row costs more
        outside = scores.max()
        scores[self.ids] = self.candidates
        self.found |= {"base": self.candidates, "base_logsumexp": self.totals[-1], "tail_max": outside}

    def finish(self, scores: NDArray[np.float32], token: int, draw: float) -> dict[str, Any]:
        """The whole record, by the names of a trace's arrays."""
        raw = self.logits[token]
        # Whatever is larger than one of the k is among the k.
        rank = np.count_nonzero((self.values if raw > self.outside else self.logits) > raw)
        return self.found | {
            "processed": scores[self.ids],
            "processed_logsumexp": self.totals[-1] if self.totals else self.found["logsumexp"],
            "removed_by": self.removed_by,
            "chosen": token,
            "chosen_raw": raw,
            "chosen_processed": scores[token],
            "rank": rank,
            "left": self.left,
            "stage_logsumexp": self.totals,
            "draws": draw,
        }
