"""The most probable of a vocabulary in a fixed order: by falling logit, the lower id first among equals (16-bit logits tie often).

Works on one row in this thread: for that little, handing parts of it to others takes longer than the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

_ROWS = 64


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """The same numbers for numpy, without a copy where they are in main memory."""
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def largest(values: NDArray[np.float32], count: int) -> NDArray[Any]:
    """The ids of the ``count`` largest of float32 [n], falling, the lower id first among equals."""
    columns = len(values) // _ROWS
    if columns >= count:
        # So many columns have a value of at least this, so the values looked for are all that large.
        least = np.partition(_column_maxima(values, columns), -count)[-count]
    else:
        least = np.partition(values, -min(count, len(values)))[-min(count, len(values))]
    ids = np.flatnonzero(values >= least)
    if len(ids) < min(count, len(values)):  # not numbers
        ids = np.arange(len(values))
    return ids[np.lexsort((ids, -values[ids]))[:count]]


def _column_maxima(values: NDArray[np.float32], columns: int) -> NDArray[np.float32]:
    """The values as a table of ``_ROWS`` rows (the last stretch that doesn't fill it laid over its first columns): float32 [columns]."""
    maxima: NDArray[np.float32] = values[: _ROWS * columns].reshape(_ROWS, columns).max(axis=0)
    rest = values[_ROWS * columns :]
    for start in range(0, len(rest), columns):
        more = rest[start : start + columns]
        np.maximum(maxima[: len(more)], more, out=maxima[: len(more)])
    return maxima
