"""``kill -9`` at any moment: every acknowledged message is there afterwards, nothing is half there, the file is sound."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from app.conversation import RunStatus
from app.settings import DATABASE_NAME
from storage import Store, open_store
from tests.storage.test_migrations import old_file

_SHORT, _FULL = 6, 50


def _killed(home: Path, job: str, seed: int, seconds: float) -> list[list[str]]:
    """Let a worker work for a while, kill it, and return what it said it had done."""
    command = [sys.executable, "-m", "tests.storage.worker", str(home), job, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        killer = threading.Timer(seconds, process.kill)
        killer.start()
        said = [first, *process.stdout]
        errors = process.stderr.read()
    killer.cancel()
    assert json.loads(said[0]) == ["open"], errors
    assert errors == ""
    return [json.loads(line) for line in said if line.endswith("\n")]


def _check(home: Path, said: list[list[str]]) -> None:
    opened = open_store(home)
    try:
        assert opened.notices == ()
        flushed: dict[str, str] = {}
        for kind, *told in said:
            match kind:
                case "conversation":
                    assert opened.conversation(told[0]).id == told[0]
                case "message":
                    assert opened.message(told[0]).content == told[1]
                    flushed.pop(told[0], None)
                case "begun" | "flushed":
                    flushed[told[0]] = told[1] if kind == "flushed" else ""
                case "imported":
                    assert len(opened.messages(told[0])) == 10
        for id_, text in flushed.items():
            assert opened.message(id_).content.startswith(text)
        _check_whole(opened)
    finally:
        opened.close()
    with closing(sqlite3.connect(home / DATABASE_NAME)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.execute("INSERT INTO message_search (message_search) VALUES ('integrity-check')")


def _check_whole(opened: Store) -> None:
    """Nobody works any more, and no imported conversation is there in part."""
    for hit in opened.conversations(limit=100_000).hits:
        messages = opened.messages(hit.conversation.id)
        assert all(
            message.run is None or message.run.status in {RunStatus.DONE, RunStatus.INTERRUPTED} for message in messages
        )
        if messages and messages[-1].content.startswith("imported"):
            assert len(messages) == 10


def _kill_often(home: Path, job: str, times: int) -> None:
    rng = random.Random(job)
    for time in range(times):
        _check(home, _killed(home, job, time, rng.uniform(0.0, 0.5)))


@pytest.mark.parametrize("job", ["chat", "import"])
def test_killed_at_a_few_random_moments(fader_home: Path, job: str) -> None:
    _kill_often(fader_home, job, _SHORT // 2)


@pytest.mark.full
@pytest.mark.parametrize("job", ["chat", "import"])
def test_killed_at_many_random_moments(fader_home: Path, job: str) -> None:
    _kill_often(fader_home, job, _FULL // 2)


def _kill_while_migrating(home: Path, times: int) -> None:
    """A file of the first layout with much in it, so that bringing it up to date takes a while."""
    path = home / DATABASE_NAME
    old_file(path, "002_runs")
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO messages (key, id, conversation, parent, role, created_at, content) VALUES (?, ?, 1, ?, 'user', 1, ?)",
            [(key, f"m{key}", key - 1, f"message {key} " * 20) for key in range(12, 6000)],
        )
    old = path.read_bytes()
    rng = random.Random(1)
    for _ in range(times):
        path.write_bytes(old)
        command = [sys.executable, "-m", "tests.storage.worker", str(home), "chat", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.2, 1.5))
            process.kill()
        opened = open_store(home)
        assert len(opened.messages("c")) == 5990
        assert opened.conversations("5999").hits[0].message_id == "m5999"
        opened.close()
        for leftover in (*home.glob("fader.db*"), *(home / "backups").glob("*")):
            leftover.unlink()


def test_killed_while_migrating(fader_home: Path) -> None:
    _kill_while_migrating(fader_home, 3)


@pytest.mark.full
def test_killed_often_while_migrating(fader_home: Path) -> None:
    _kill_while_migrating(fader_home, 15)
