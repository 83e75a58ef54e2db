"""The page's routes over a scripted engine and a real store, asked without a socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from fastapi.testclient import TestClient

from app.chat import Chat
from app.engine.engine import Engine
from app.settings import Settings
from storage import open_store
from tests.ui.fakes import FakeEngine
from ui.server import create_api


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def chat(engine: FakeEngine, tmp_path: Path) -> Iterator[Chat]:
    chat = Chat(open_store(tmp_path), cast(Engine, engine), Settings())
    yield chat
    chat.close()


@pytest.fixture
def client(chat: Chat) -> Iterator[TestClient]:
    with TestClient(
        create_api(chat, chat.settings), base_url="http://127.0.0.1:7860", headers={"X-Fader": "1"}
    ) as client:
        yield client
