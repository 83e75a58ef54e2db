"""Fixtures of the models room: settings over a cache folder, tiny models made once per session, the built-in model loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.models.loading import LoadedModel, load_model, unload
from app.settings import Settings
from tests.models.tiny import tiny_llama


@pytest.fixture
def settings(tmp_path: Path, shared_cache: Path) -> Settings:
    """A cache of the test's own, empty but for the kernels, which the session builds once."""
    (shared_cache / "native").mkdir(exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "native").symlink_to(shared_cache / "native", target_is_directory=True)
    return Settings(cache=tmp_path / "cache", home=tmp_path / "home")


@pytest.fixture(scope="session")
def model_cache(shared_cache: Path) -> Path:
    """The session's cache folder, in which the built-in model is prepared once (FADER_TEST_CACHE keeps it between sessions)."""
    return shared_cache


@pytest.fixture(scope="session")
def builtin(model_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedModel]:
    """The real built-in model; read only."""
    loaded = load_model("builtin", Settings(cache=model_cache, home=tmp_path_factory.mktemp("home")))
    yield loaded
    unload(loaded)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are quicker on one thread, by far so on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    """A tiny llama's folder, to be spoilt at will."""
    return tiny_llama(tmp_path / "llama")
