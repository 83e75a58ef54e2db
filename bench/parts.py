"""The built-in model behind Fader's own engine, and the library's ``generate`` on that same model as the peer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers.generation.streamers import BaseStreamer

from app.conversation import Message, Role, new_id
from app.engine.engine import Engine
from app.engine.events import Ended
from app.engine.run import RunRequest
from app.models.service import ModelService
from app.settings import Settings

PLAIN: dict[str, Any] = {"temperature": 0, "trace_top_k": 0}
"""Greedy, and nothing recorded: what ``generate`` does by itself."""
NEVER = 49151
"""A token that doesn't come, as the end: forbidding the real one until there are enough tokens costs half a millisecond for each."""


@contextmanager
def engine_with_model(home: Path, name: str = "builtin") -> Iterator[Engine]:
    """An engine that has the model in memory."""
    settings = Settings(home=home)
    engine = Engine(ModelService(settings), settings)
    try:
        job = engine.load(name)
        job.finished.wait()
        if job.error:
            raise job.error
        yield engine
    finally:
        engine.close()


def exactly(tokens: int) -> dict[str, Any]:
    """Parameters of a greedy reply of so many tokens."""
    return {**PLAIN, "max_new_tokens": tokens, "eos_token_id": NEVER}


def reply(engine: Engine, messages: Sequence[Message], requested: dict[str, Any], beginning: str = "") -> Ended:
    """Compute a reply that starts with ``beginning``. Raises RuntimeError when it fails."""
    request = RunRequest(
        new_id(), "bench", new_id(), messages=tuple(messages), requested=requested, prefix_text=beginning
    )
    ended = engine.submit(request).result()
    if ended.run.error:
        raise RuntimeError(ended.run.error)
    return ended


def said(*texts: str) -> list[Message]:
    """A conversation, the user first."""
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(new_id(), "", None, roles[place % 2], text) for place, text in enumerate(texts)]


class Stamps(BaseStreamer):
    """When each call with new tokens came; the first call is the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        """New tokens."""
        del value
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing more comes."""


def raw_speed(engine: Engine, prompt: Sequence[int], tokens: int) -> float:
    """Tokens per second of the library's own ``generate`` after the first token, greedy, as many tokens as asked for."""
    assert engine.loaded is not None  # noqa: S101  (engine_with_model has seen to it)
    model: Any = engine.loaded.model
    stamps = Stamps()
    asked = {"do_sample": False, "max_new_tokens": tokens, "eos_token_id": NEVER}
    model.generate(torch.tensor([list(prompt)]), streamer=stamps, pad_token_id=NEVER, **asked)
    _, first, *_, last = stamps.times
    return (tokens - 1) / (last - first)
