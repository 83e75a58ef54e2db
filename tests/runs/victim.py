"""A process that brings a run into a state and waits there to be killed.

``python -m tests.runs.victim MODEL`` loads a model, then reads lines ``["state", "data folder"]``. For each it splits off a child that
holds a run in that state, and passes on the child's line ``{"pid", "conversation", "reply", "run", "text"}``: what a reader has seen,
once all of it is in the store; and when the child is no more, ``"dead"``. The libraries are imported once, not once for every death.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from app.chat import Chat
from app.engine.engine import Engine
from app.models.loading import LoadedModel
from app.models.service import ModelService
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel
from tests.runs.gates import Held, held


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def hold(loaded: LoadedModel, state: str, home: Path) -> None:
    """In the child: say what has been kept, and wait for ever."""
    models = OneModel(loaded)
    models.gate.set()
    settings = Settings(home=home, prefill_chunk=16, flush_seconds=0.05)
    chat = Chat(open_store(home), Engine(models, settings), settings)
    chat.engine.load("tiny").finished.wait(60)
    with held(chat, loaded, models, state) as run:
        wait_until_kept(chat, run)
        ids = {"conversation": run.started.conversation.id, "reply": run.started.reply.id, "run": run.run.id}
        say({"pid": os.getpid(), **ids, "text": run.run.text()})
        while True:
            signal.pause()


def wait_until_kept(chat: Chat, run: Held) -> None:
    """Until the store has the text and the state."""
    while True:
        stored = chat.store.message(run.started.reply.id)
        assert stored.run is not None
        if (stored.content, stored.run.status) == (run.run.text(), run.run.status):
            return
        run.run.wait(len(run.run.read()), 0.02)


def main(model: str) -> None:
    loaded = ModelService(Settings()).load(model)
    for line in iter(sys.stdin.readline, ""):
        state, home = json.loads(line)
        child = os.fork()
        if child == 0:
            hold(loaded, state, Path(home))
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    main(*sys.argv[1:])
