"""Many readers and a queue of runs: no reader loses, doubles or misorders an event, and memory stays flat."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic

import httpx
import psutil
import pytest
import uvicorn

from app.chat import Chat, Started
from app.conversation import RunStatus
from app.engine.run import LiveRun
from app.models.loading import LoadedModel
from tests.runs.gates import asked_for
from tests.runs.whole import check_log
from ui.serve import listening_socket
from ui.server import create_api

READERS, QUEUED = 20, 10
SHORT_S, FULL_S = 4.0, 120.0
ALLOWED_GROWTH = 48 * 2**20
"""Bytes: the 200 ended runs that stay readable, and what an allocator keeps."""


@contextmanager
def serving(chat: Chat) -> Iterator[str]:
    """The routes on a free port."""
    with listening_socket("127.0.0.1", 7900) as listener:
        server = uvicorn.Server(uvicorn.Config(create_api(chat, chat.settings), log_level="error"))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@dataclass
class Crowd:
    """Readers that follow one run after the other, and what was wrong for any of them."""

    address: str
    stop: Event = field(default_factory=Event)
    wrong: list[str] = field(default_factory=list)
    read: int = 0

    def by_log(self, run: LiveRun) -> None:
        """As the command line and the store do: every event in its order, joined into the text."""
        log = list(run.events())
        if [number for number, _ in log] != list(range(1, len(log) + 1)) or tuple(log) != run.read():
            self.wrong.append(f"{run.id}: {[number for number, _ in log]}")
        self.read += 1

    def late(self, run: LiveRun) -> None:
        """Comes back twice: first a look, then on from there."""
        first = run.read()
        rest = list(run.events(after=len(first)))
        if (*first, *rest) != run.read():
            self.wrong.append(f"{run.id}: lost at a return")
        self.read += 1

    def by_route(self, run: LiveRun) -> None:
        """As the page does: blocks by number, put together; the end shows the same text."""
        blocks: dict[int, list[str]] = {}
        number, done, view = 0, False, {}
        with httpx.Client(base_url=self.address) as page:
            while not done:
                view = page.get(f"/api/runs/{run.id}", params={"after": number, "wait": 0.25}).json()
                if view["seq"] < number:
                    self.wrong.append(f"{run.id}: the page went back")
                for segment in view["segments"]:
                    blocks.setdefault(segment["n"], [])[segment["from"] :] = segment["blocks"]
                number, done = view["seq"], view["done"]
        if [blocks[n] for n in sorted(blocks)] != [segment["blocks"] for segment in view["final"]]:
            self.wrong.append(f"{run.id}: the page differs from the end")
        if number != len(run.read()) or view["text"] != run.result().text:
            self.wrong.append(f"{run.id}: the page ended early")
        self.read += 1


def work(crowd: Crowd, how: Callable[[LiveRun], None], runs: Callable[[], tuple[LiveRun, ...]], place: int) -> None:
    """A reader: takes the run at its place in the queue, again and again."""
    while not crowd.stop.is_set():
        queue = runs()
        if queue:
            how(queue[place % len(queue)])


def sending(chat: Chat, tiny: LoadedModel, until: float) -> Iterator[Started]:
    """Keep the queue full; yields runs as they end, in order."""
    waiting: list[Started] = []
    number = 0
    while monotonic() < until or waiting:
        while len(waiting) < QUEUED and monotonic() < until:
            number += 1
            waiting.append(chat.send(f"message {number}", requested={**asked_for(tiny, "sampled"), "seed": number}))
        started = waiting.pop(0)
        started.run.result(120)
        yield started


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.mark.parametrize(
    "seconds", [SHORT_S, pytest.param(FULL_S, marks=pytest.mark.full)], ids=["short", "two minutes"]
)
def test_many_readers_of_a_full_queue_each_get_everything_once(chat: Chat, tiny: LoadedModel, seconds: float) -> None:
    count = warm = before = 0
    with serving(chat) as address:
        crowd = Crowd(address)
        ways = (crowd.by_log, crowd.late, crowd.by_route, crowd.by_route)
        readers = [
            Thread(target=work, args=(crowd, ways[place % len(ways)], chat.engine.queue, place // 2))
            for place in range(READERS)
        ]
        for reader in readers:
            reader.start()
        until = monotonic() + seconds
        for started in sending(chat, tiny, until):
            check(chat, started)
            count += 1
            if not warm and monotonic() > until - 0.6 * seconds:
                warm, before = count, resident()
        after = resident()
        crowd.stop.set()
        for reader in readers:
            reader.join(60)
    assert crowd.wrong == []
    assert crowd.read >= READERS
    assert count > QUEUED
    assert after - before < ALLOWED_GROWTH, f"{(after - before) / 2**20:.0f} MiB more after {count - warm} runs"


def check(chat: Chat, started: Started) -> None:
    """A run has ended as it should, and is stored so."""
    assert check_log(started.run).run.status is RunStatus.DONE
    assert chat.wait_until_kept(started.run.id)
    assert chat.store.message(started.reply.id).content == started.run.text()


def test_small_answers_are_not_held_back_for_an_acknowledgement() -> None:
    """Asyncio switches Nagle's algorithm off only for sockets that name TCP; with it each update of a reply came 40 ms late."""
    with listening_socket("127.0.0.1", 7900) as listener:
        assert listener.proto == socket.IPPROTO_TCP
