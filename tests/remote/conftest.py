"""Use cases over a real store, with a model on a fake server as the one to chat with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.chat import Chat
from app.engine.engine import Engine
from app.models.service import ModelService
from app.settings import Settings
from storage import open_store
from tests.remote.fake_server import FakeServer, serving

Choose = Callable[..., Chat]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving() as running:
        yield running


@pytest.fixture
def vllm(server: FakeServer) -> FakeServer:
    server.be_vllm()
    return server


@pytest.fixture
def choose(fader_home: Path, server: FakeServer) -> Iterator[Choose]:
    """Makes a chat whose model is on the server; further arguments are settings."""
    made: list[Chat] = []

    def chat(model: str = "", **fields: Any) -> Chat:
        settings = Settings(home=fader_home, **fields)
        made.append(Chat(open_store(fader_home), Engine(ModelService(settings), settings), settings))
        job = made[-1].engine.load(model or server.base)
        assert job.finished.wait(60)
        if job.error:
            raise job.error
        return made[-1]

    yield chat
    server.gate.set()
    for one in made:
        one.close()
