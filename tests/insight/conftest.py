"""Fixtures of the insight room."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An empty cache of the test's own."""
    return Settings(cache=tmp_path / "cache", home=tmp_path / "home")
