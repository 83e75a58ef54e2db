"""Use cases over a real database file and a tiny real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat import Chat
from app.engine.engine import Engine
from app.models.loading import LoadedModel
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel, models, tiny

__all__ = ["models", "tiny"]


@pytest.fixture
def chat(fader_home: Path, tiny: LoadedModel) -> Iterator[Chat]:
    model = OneModel(tiny)
    model.gate.set()
    settings = Settings(home=fader_home, prefill_chunk=16)
    made = Chat(open_store(fader_home), Engine(model, settings), settings)
    made.engine.load("tiny")
    yield made
    made.close()
