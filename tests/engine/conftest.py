"""A tiny real model, loaded as the product loads it, and an engine around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app.conversation import Message, Role, new_id
from app.engine.engine import Engine
from app.engine.run import RunRequest
from app.errors import ModelError
from app.models.loading import LoadedModel
from app.models.options import LoadOptions
from app.models.service import ModelService
from app.settings import Settings
from tests.models.tiny import tiny_llama


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> LoadedModel:
    """A random llama of two layers with the chat template ChatML."""
    folder = tiny_llama(tmp_path_factory.mktemp("models") / "tiny")
    return ModelService(Settings(cache=shared_cache)).load(str(folder))


@dataclass
class OneModel:
    """``Models`` that always gives the same loaded model, or raises what the test put there."""

    loaded: LoadedModel
    error: Exception | None = None
    gate: Event = field(default_factory=Event)
    loads: list[str] = field(default_factory=list)

    def load(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None],
        cancelled: Event,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        self.loads.append(name)
        progress("Reading", 1, 2)
        while not self.gate.wait(0.01):
            if cancelled.is_set():
                from app.errors import Cancelled

                raise Cancelled
        if self.error is not None:
            raise self.error
        if name == "broken":
            sentence = "broken has no config.json"
            raise ModelError(sentence)
        return self.loaded

    def unload(self, loaded: LoadedModel) -> None:
        del loaded


@pytest.fixture
def models(tiny: LoadedModel) -> OneModel:
    made = OneModel(tiny)
    made.gate.set()
    return made


@pytest.fixture
def engine(models: OneModel) -> Iterator[Engine]:
    """An engine that has the tiny model loaded."""
    made = Engine(models, Settings(prefill_chunk=16, read_ahead=False))
    assert made.load("tiny").finished.wait(60)
    yield made
    models.gate.set()
    made.close()


def request_for(text: str = "hello there", **fields: Any) -> RunRequest:
    """A request for a reply to one message; ``fields`` override those of RunRequest."""
    conversation = new_id()
    question = Message(new_id(), conversation, None, Role.USER, text)
    given = {"messages": (question,), "requested": {"max_new_tokens": 12, "seed": 1}} | fields
    return RunRequest(new_id(), conversation, new_id(), **given)
