"""The largest of a row, in a fixed order, whatever its length and however its values tie."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.ranking import largest


@pytest.mark.parametrize("length", [1, 40, 63, 64, 200, 4097, 49152, 50257])
@pytest.mark.parametrize("count", [1, 21, 256])
def test_they_come_by_falling_value_and_the_lower_id_first(length: int, count: int) -> None:
    random = np.random.default_rng(length + count)
    plain = random.normal(size=length).astype(np.float32)
    excluded = np.where(random.random(length) < 0.9, np.float32(-np.inf), plain)
    for values in (plain, np.round(plain), excluded, np.zeros_like(plain)):
        expected = np.lexsort((np.arange(length), -values))[:count]
        assert largest(values, count).tolist() == expected.tolist()


def test_what_is_not_a_number_loses_nothing() -> None:
    assert len(largest(np.full(5000, np.nan, np.float32), 21)) == 21
