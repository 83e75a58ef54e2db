"""What is asked of one row of logits at every token: the largest in order, and what the row sums to; by the kernels where they are there.

At that size finding out costs less than calling for it: each question is one call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from app.engine.ranking import largest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.native.library import Kernels

_LOWEST = np.finfo(np.float32).min


class Rows(Protocol):
    """Works on float32 [n] in main memory."""

    def largest(self, values: NDArray[np.float32], count: int) -> NDArray[Any]:
        """The ids of the ``count`` largest, falling, the lower id first among equals."""

    def sums(self, values: NDArray[np.float32]) -> tuple[float, float, int]:
        """Log-sum-exp; the mean of the values under their own distribution; how many are above -inf.

        Where the largest is infinite or not a number the first is that; of nothing it is -inf.
        """


@dataclass(frozen=True, slots=True)
class NumpyRows:
    """Without kernels."""

    def largest(self, values: NDArray[np.float32], count: int) -> NDArray[Any]:
        """See ``Rows``."""
        return largest(values, count)

    def sums(self, values: NDArray[np.float32]) -> tuple[float, float, int]:
        """See ``Rows``."""
        if not len(values):
            return -math.inf, math.nan, 0
        best, possible = int(values.argmax()), int(np.count_nonzero(values > -np.inf))
        top = float(values[best])
        if not math.isfinite(top):
            return top, math.nan, possible
        chances = _softmax(values)
        with np.errstate(invalid="ignore"):
            mean = float(chances.dot(values))
        if math.isnan(mean):  # 0 times the -inf of what is excluded
            mean = float(chances.dot(np.maximum(values, _LOWEST)))
        return top - math.log(chances[best]), mean, possible


@dataclass(frozen=True, slots=True)
class KernelRows:
    """By ``row.c``, in this thread."""

    kernels: Kernels

    def largest(self, values: NDArray[np.float32], count: int) -> NDArray[Any]:
        """See ``Rows``."""
        count = min(count, len(values))
        ids = np.empty(count, np.int64)
        values = np.ascontiguousarray(values, np.float32)
        there = self.kernels.calls.fader_largest(values.ctypes.data, len(values), count, ids.ctypes.data)
        return ids if there == count else largest(values, count)

    def sums(self, values: NDArray[np.float32]) -> tuple[float, float, int]:
        """See ``Rows``."""
        found = np.empty(3)
        values = np.ascontiguousarray(values, np.float32)
        self.kernels.calls.fader_sum(values.ctypes.data, len(values), found.ctypes.data)
        total, mean, possible = found.tolist()
        return total, mean, int(possible)


def rows_for(kernels: Kernels | None) -> Rows:
    """The quicker way there is."""
    return NumpyRows() if kernels is None else KernelRows(kernels)


def _softmax(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of float32 [n], by torch, whose exponential is the quicker one; a single row stays in this thread."""
    import torch

    chances: NDArray[np.float32] = torch.softmax(torch.from_numpy(values), dim=0).numpy()
    return chances
