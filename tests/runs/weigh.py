"""Prints the resident memory (MiB) of a process with an engine, for each of two rounds: with the built-in model in memory
after a reply, and freed again. ``python -m tests.runs.weigh``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from app.conversation import Message, Role, new_id
from app.engine.engine import Engine
from app.engine.run import RunRequest
from app.models.service import ModelService
from app.settings import Settings


def resident() -> float:
    """Memory the process takes, mapped files included: how much of a model's copy is mapped and how much is its own depends on the
    processor."""
    return float(psutil.Process().memory_info().rss) / 2**20


def main() -> None:
    with TemporaryDirectory() as home:
        settings = Settings(home=Path(home))
        engine = Engine(ModelService(settings), settings)
        rounds = []
        question = Message(new_id(), "", None, Role.USER, "the lighthouse and the sea " * 40)
        for _ in range(2):
            engine.load("builtin").finished.wait()
            request = RunRequest(new_id(), "", new_id(), (question,), requested={"max_new_tokens": 4, "seed": 1})
            assert engine.submit(request).result().run.error is None
            loaded = resident()
            engine.unload().finished.wait()
            rounds.append((loaded, resident()))
        engine.close()
    sys.stdout.write(json.dumps(rounds))


if __name__ == "__main__":
    main()
