"""Fixtures of the insight room."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, shared_cache: Path) -> Settings:
    """A cache of the test's own, empty but for the kernels, which the session builds once."""
    (shared_cache / "native").mkdir(exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "native").symlink_to(shared_cache / "native", target_is_directory=True)
    return Settings(cache=tmp_path / "cache", home=tmp_path / "home")
