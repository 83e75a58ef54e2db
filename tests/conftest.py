"""What every test gets: the ``--full`` option, an empty data folder of its own, and no way to a network or a user's files.

The environment is set before anything of the project is imported, because libraries read it at import.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

SHARED_CACHE = "FADER_TEST_CACHE"


def _isolate_environment() -> None:
    """Forget the user's FADER_* settings; keep libraries off the network and out of analytics."""
    for name in [n for n in os.environ if n.startswith("FADER_") and n != SHARED_CACHE]:
        del os.environ[name]
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    # Tests run beside each other's servers and browsers: a thread that has nothing to do must not burn its core while it waits.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


_isolate_environment()
# A busy machine is no failure: examples are not timed.
settings.register_profile("fader", deadline=None)
settings.load_profile("fader")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests that take minutes or gigabytes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="runs with --full"))


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder for the whole session, so that the built-in model is converted once.

    FADER_TEST_CACHE names a folder to keep between sessions. Child processes find it in FADER_CACHE.
    """
    kept = os.environ.get(SHARED_CACHE)
    cache = Path(kept) if kept else tmp_path_factory.mktemp("cache")
    os.environ["FADER_CACHE"] = str(cache)
    # What lives as long as the session (a server) must not touch the user's chats either.
    os.environ["FADER_HOME"] = str(tmp_path_factory.mktemp("session-home"))
    return cache


@pytest.fixture(scope="session", autouse=True)
def _kernels_built_once(shared_cache: Path) -> Iterator[None]:
    """Tests with cache folders of their own need no compiler each. ``tests/native`` builds for itself."""
    from app.native.build import build

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.native.library.build", lambda _cache: build(shared_cache))
        yield


@pytest.fixture(autouse=True)
def fader_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of this test's own, also in FADER_HOME."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("FADER_HOME", str(home))
    return home
