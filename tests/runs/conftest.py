"""Use cases over a real database file and a tiny real model that is in memory when a test begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat import Chat
from app.engine.engine import Engine
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel, models, tiny

__all__ = ["models", "tiny"]


@pytest.fixture
def chat(fader_home: Path, models: OneModel) -> Iterator[Chat]:
    settings = Settings(home=fader_home, prefill_chunk=16, read_ahead=False)
    made = Chat(open_store(fader_home), Engine(models, settings), settings)
    assert made.engine.load("tiny").finished.wait(60)
    yield made
    models.gate.set()
    made.close()
