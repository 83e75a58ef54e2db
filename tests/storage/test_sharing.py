"""Several tabs and several processes on one data folder: nothing is lost, nobody is blocked, the living aren't taken for dead."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from app.conversation import RunStatus
from app.errors import StoreBusy
from storage import Store, open_store, owners
from tests.storage import samples


def _tab(store: Store, conversation_id: str, until: float) -> list[str]:
    """Send and stream until the time is over; returns the ids of the finished replies."""
    done = []
    while monotonic() < until:
        _, reply, run = samples.begin(store, conversation_id, None, "question")
        store.flush_run(run.id, "partial", "generating")
        store.conversations("question")
        store.finish_run(samples.ended(run), f"reply {reply.id}")
        done.append(reply.id)
    return done


def _said(process: subprocess.Popen[str]) -> list[list[str]]:
    """What a worker acknowledges until it ends."""
    assert process.stdout is not None
    return [json.loads(line) for line in process.stdout if line.endswith("\n")]


def _write_at_once(home: Path, seconds: float) -> None:
    store = open_store(home)
    talk = samples.conversation(store, "shared")
    others = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.storage.worker", str(home), "chat", str(seed)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(2)
    ]
    try:
        for other in others:
            assert other.stdout is not None
            assert json.loads(other.stdout.readline()) == ["open"]
        until = monotonic() + seconds
        with ThreadPoolExecutor(5) as pool:
            tabs = [pool.submit(_tab, store, talk.id, until) for _ in range(3)]
            readers = [pool.submit(_said, other) for other in others]
            replies = [reply for tab in tabs for reply in tab.result()]
            for other in others:
                other.kill()
            said = [told for reader in readers for told in reader.result()]
    finally:
        for other in others:
            other.kill()
            other.wait()
            assert other.stdout is not None
            other.stdout.close()
    for reply in replies:
        assert store.message(reply).content == f"reply {reply}"
    kept = [store.message(told[1]).content == told[2] for told in said if told[0] == "message"]
    assert len(replies) > 3 * 5
    assert len(kept) > 2 * 5
    assert all(kept)
    assert store.interrupt_orphans() <= len(others)
    assert store.interrupt_orphans() == 0
    store.close()


def test_three_tabs_and_two_processes_write_at_once(fader_home: Path) -> None:
    _write_at_once(fader_home, 3)


@pytest.mark.full
def test_three_tabs_and_two_processes_write_at_once_for_long(fader_home: Path) -> None:
    _write_at_once(fader_home, 30)


def test_a_running_reply_of_another_process_is_left_alone_until_that_ends(fader_home: Path) -> None:
    one, other = open_store(fader_home), open_store(fader_home)
    try:
        talk = samples.conversation(one)
        _, _, run = samples.begin(one, talk.id, None, "Why?")
        assert other.interrupt_orphans() == 0
        assert other.run(run.id).status is RunStatus.QUEUED
        one.close()
        assert other.interrupt_orphans() == 1
        assert other.run(run.id).status is RunStatus.INTERRUPTED
    finally:
        one.close()
        other.close()


def test_what_one_process_writes_another_sees_at_once(fader_home: Path) -> None:
    one, other = open_store(fader_home), open_store(fader_home)
    try:
        talk = samples.conversation(one, "Tea")
        assert samples.titles(other) == ["Tea"]
        other.update_conversation(talk.id, title="Coffee")
        assert samples.titles(one, "coffee") == ["Coffee"]
    finally:
        one.close()
        other.close()


def test_readers_are_not_held_up_by_a_long_write(store: Store) -> None:
    talk = samples.conversation(store, "Tea")
    writing, read = Event(), Event()

    def slow(db: object) -> bool:
        writing.set()
        return read.wait(20)

    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(store._db.write, slow)
        assert writing.wait(20)
        assert store.conversation(talk.id).title == "Tea"
        assert not write.done()
        read.set()
        assert write.result()


def test_a_lock_is_free_once_its_holder_is_gone(tmp_path: Path) -> None:
    first, second = owners.FileLock(tmp_path / "x.lock"), owners.FileLock(tmp_path / "x.lock")
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release(remove=True)
    assert not (tmp_path / "x.lock").exists()


def test_waiting_for_another_opening_ends_with_a_reason(tmp_path: Path) -> None:
    with owners.exclusively(tmp_path / "locks" / "_opening.lock", seconds=1):
        waiting = owners.exclusively(tmp_path / "locks" / "_opening.lock", seconds=0.1)
        with pytest.raises(StoreBusy), waiting:
            pytest.fail("two at once")
