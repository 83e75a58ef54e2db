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
    ids = _in_columns(values, columns, count) if columns >= count else np.arange(len(values))
    if len(ids) < min(count, len(values)):  # not numbers
        ids = np.arange(len(values))
    return ids[np.lexsort((ids, -values[ids]))[:count]]


def _in_columns(values: NDArray[np.float32], columns: int, count: int) -> NDArray[Any]:
    """Ids among which the ``count`` largest are, from the values laid out as a table of ``_ROWS`` rows and what doesn't fill another row.

    So many columns have a value of at least the smallest of their maxima; all values as large as that stand in these columns.
    """
    table, rest = values[: _ROWS * columns].reshape(_ROWS, columns), values[_ROWS * columns :]
    maxima = table.max(axis=0)
    least = np.partition(maxima, -count)[-count]
    chosen = np.flatnonzero(maxima >= least)
    if len(chosen) > 2 * count:
        return _of_ties(values, least, count)
    rows, places = np.nonzero(table[:, chosen] >= least)
    found: NDArray[Any] = rows * columns + chosen[places]
    if len(rest):
        found = np.concatenate((found, np.flatnonzero(rest >= least) + _ROWS * columns))
    return found


def _of_ties(values: NDArray[np.float32], least: np.float32, count: int) -> NDArray[Any]:
    """The same where many share the smallest of the maxima, as the excluded do where few tokens are left: no more of them than there are
    places."""
    above = np.flatnonzero(values > least)
    if len(above) >= count:
        return above
    return np.concatenate((above, np.flatnonzero(values == least)[: count - len(above)]))
