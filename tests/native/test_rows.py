"""One row of logits: the kernels say what numpy says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.engine.rows import KernelRows, NumpyRows
from app.native.library import Kernels

PLAIN = NumpyRows()


@pytest.fixture
def rows(kernels: Kernels) -> KernelRows:
    return KernelRows(kernels)


def some(length: int) -> list[np.ndarray]:
    random = np.random.default_rng(length)
    plain = (random.normal(size=length) * 4).astype(np.float32)
    excluded = np.where(random.random(length) < 0.9, np.float32(-np.inf), plain)
    excluded[-1] = 1.0
    return [plain, np.round(plain), excluded, np.zeros_like(plain), plain - 1000, plain * 30]


@pytest.mark.parametrize("length", [1, 7, 8, 33, 512, 513, 4099, 49152])
def test_the_largest_come_in_order_and_the_sums_agree(rows: KernelRows, length: int) -> None:
    for values in some(length):
        for count in (1, 21, 300):
            assert rows.largest(values, count).tolist() == PLAIN.largest(values, count).tolist()
        total, mean, possible = rows.sums(values)
        expected, expected_mean, expected_possible = PLAIN.sums(values)
        assert total == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert mean == pytest.approx(expected_mean, rel=1e-4, abs=1e-4)
        assert possible == expected_possible


def test_rows_without_an_end(rows: KernelRows) -> None:
    nothing, excluded = np.zeros(0, np.float32), np.full(600, -np.inf, np.float32)
    certain = excluded.copy()
    certain[7] = np.inf
    for values, top, possible in ((nothing, -math.inf, 0), (excluded, -math.inf, 0), (certain, math.inf, 1)):
        assert (rows.sums(values)[0], rows.sums(values)[2]) == (top, possible)
        assert (PLAIN.sums(values)[0], PLAIN.sums(values)[2]) == (top, possible)


def test_what_is_not_a_number_loses_nothing(rows: KernelRows) -> None:
    values = np.full(5000, np.nan, np.float32)
    values[40] = 1.0
    assert len(rows.largest(values, 21)) == 21
    assert rows.largest(values, 1).tolist() == [40]
