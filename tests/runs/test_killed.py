"""A Fader that is killed loses nothing that was kept: in whatever state its run was, the next Fader shows it as interrupted and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.chat import Chat
from app.conversation import RunStatus
from app.engine.engine import Engine
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel
from tests.models.tiny import tiny_llama
from tests.runs.gates import STATES
from tests.runs.whole import AGAIN, check_log, check_next


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[subprocess.Popen[str]]:
    """The process that children to be killed come from; one thread of arithmetic, because others don't survive a fork."""
    folder = tiny_llama(tmp_path_factory.mktemp("victim") / "tiny")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.runs.victim", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        yield process
        process.kill()


def killed_while(victims: subprocess.Popen[str], state: str, home: Path) -> dict[str, Any]:
    """Have a Fader killed in a state; what its user had seen."""
    assert victims.stdin is not None
    assert victims.stdout is not None
    victims.stdin.write(json.dumps([state, str(home)]) + "\n")
    victims.stdin.flush()
    seen: dict[str, Any] = json.loads(victims.stdout.readline())
    os.kill(seen["pid"], signal.SIGKILL)
    assert json.loads(victims.stdout.readline()) == "dead"
    return seen


@pytest.fixture
def next_fader(fader_home: Path, models: OneModel) -> Iterator[Any]:
    """Starts Fader again on the same data folder, as ``fader run`` does."""
    opened: list[Chat] = []

    def start() -> Chat:
        store = open_store(fader_home)
        assert store.notices == ()
        store.interrupt_orphans()
        settings = Settings(home=fader_home, prefill_chunk=16)
        opened.append(Chat(store, Engine(models, settings), settings))
        assert opened[-1].engine.load("tiny").finished.wait(60)
        return opened[-1]

    yield start
    for chat in opened:
        chat.close()


@pytest.mark.parametrize("state", STATES)
def test_killed_in_any_state(victims: subprocess.Popen[str], next_fader: Any, fader_home: Path, state: str) -> None:
    seen = killed_while(victims, state, fader_home)
    chat: Chat = next_fader()
    run = chat.store.run(seen["run"])
    assert run.status is RunStatus.INTERRUPTED
    assert chat.store.message(seen["reply"]).content == seen["text"]
    assert bool(seen["text"]) == (state in {"generating", "two sequences", "prompt lookup"})
    check_next(chat, seen["conversation"], seen["reply"])
    further = chat.continue_reply(seen["reply"], requested=AGAIN)
    further.run.result(120)
    assert check_log(further.run).text.startswith(seen["text"])
    assert further.run.status is RunStatus.DONE
