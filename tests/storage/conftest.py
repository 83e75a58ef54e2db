"""A store in a data folder of the test's own, closed afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store, open_store


@pytest.fixture
def store(fader_home: Path) -> Iterator[Store]:
    opened = open_store(fader_home)
    yield opened
    opened.close()
