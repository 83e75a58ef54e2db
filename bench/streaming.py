"""What streaming costs: a reply through engine, store and server to a reader that polls as the page does, against ``generate``.

The server, the engine and the store's writer share a process, as in the product; the reader has one of its own, as a browser has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import monotonic

import uvicorn

from app.chat import Chat
from app.conversation import Conversation, Message, Role, Run, RunStatus, new_id
from app.engine.events import Event, TextDelta
from app.engine.run import LiveRun
from app.settings import Settings
from bench.parts import engine_with_model, exactly, raw_speed
from bench.report import Figure, alternate, quantile
from storage import open_store
from ui.serve import listening_socket
from ui.server import create_app

CONTEXT = 1024
"""Tokens of context in this benchmark, so that a chat of 1,000 messages differs from one of 10 by its history and not by its prompt."""
PAUSE_S = 0.05


def figures(home: Path, rounds: int, tokens: int, sizes: tuple[int, ...] = (10, 1000)) -> Iterator[Figure]:
    """Speed and latency for chats of each size."""
    settings = Settings(home=home)
    with engine_with_model(home) as engine:
        assert engine.loaded is not None  # noqa: S101
        engine.loaded.facts = replace(engine.loaded.facts, context_length=CONTEXT)
        chat = Chat(open_store(home), engine, settings)
        with serving(chat, settings) as address:
            for size in sizes:
                yield from measure(chat, address, size, rounds, tokens)
            yield from on_screen(chat, address, sizes, rounds, tokens)


def on_screen(chat: Chat, address: str, sizes: tuple[int, ...], rounds: int, tokens: int) -> Iterator[Figure]:
    """The same in a real browser, where there is one."""
    from bench import screen

    with screen.browser() as chromium:
        for size in sizes if chromium else ():
            yield from screen.measure(chromium, chat, address, size, rounds, tokens)


@contextmanager
def serving(chat: Chat, settings: Settings) -> Iterator[str]:
    """The whole page on a free port, in a thread."""
    with listening_socket("127.0.0.1", settings.port) as listener:
        server = uvicorn.Server(uvicorn.Config(create_app(chat, settings), log_level="error"))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def measure(chat: Chat, address: str, size: int, rounds: int, tokens: int) -> Iterator[Figure]:
    """A chat of ``size`` messages."""
    talk, leaf = fill(chat, size)
    latencies: list[float] = []
    prompt: tuple[int, ...] = ()

    def followed() -> float:
        nonlocal prompt
        with stamped() as stamps:
            asked = exactly(tokens)
            live = chat.send("Go on.", conversation_id=talk, parent_id=leaf, requested=asked).run
            latencies.extend(latencies_of(address, live, stamps))
        ended = live.result()
        prompt = ended.run.prompt_ids
        chat.wait_until_kept(live.id)
        assert ended.run.stats.tokens_per_s is not None, ended.run.error  # noqa: S101
        return ended.run.stats.tokens_per_s

    followed()
    latencies.clear()
    ours, theirs = alternate(followed, lambda: raw_speed(chat.engine, prompt, tokens), rounds)
    name = f"in a chat of {size:,} messages"
    yield Figure(f"streaming {name}", "tokens/s", ours, "model.generate", theirs, "≥ 0.97")
    yield Figure(f"token to reader {name}, median", "ms", [quantile(latencies, 0.5)])
    yield Figure(f"token to reader {name}, p95", "ms", [quantile(latencies, 0.95)], goal="≤ 50 ms")


def fill(chat: Chat, size: int) -> tuple[str, str]:
    """A stored conversation; its id and that of its last message, a reply."""
    talk = Conversation(title="A long one")
    messages: list[Message] = []
    for place in range(size):
        role = Role.ASSISTANT if place % 2 else Role.USER
        message = Message(
            new_id(), talk.id, messages[-1].id if messages else None, role, f"Message {place}: the sea. " * 4
        )
        run = Run(new_id(), message.id, RunStatus.DONE) if place % 2 else None
        messages.append(replace(message, run=run))
    chat.store.add_conversation(replace(talk, shown_leaf=messages[-1].id), messages)
    return talk.id, messages[-1].id


@contextmanager
def stamped(clock: Callable[[], float] = monotonic) -> Iterator[dict[int, float]]:
    """While open, the time at which each text event of a run is appended, by its number."""
    stock, stamps = LiveRun.append, {}

    def append(self: LiveRun, event: Event) -> None:
        stock(self, event)
        if isinstance(event, TextDelta):
            stamps[len(self._log)] = clock()

    LiveRun.append = append  # type: ignore[method-assign]
    try:
        yield stamps
    finally:
        LiveRun.append = stock  # type: ignore[method-assign]


def latencies_of(address: str, live: LiveRun, stamps: dict[int, float]) -> list[float]:
    """Milliseconds from each token to the moment when the reader had it."""
    command = [sys.executable, "-m", "bench.reader", address, live.id]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    seen: list[tuple[int, float]] = json.loads(done.stdout)
    began = seen[0][1]
    waits, place = [], 0
    for number, at in sorted(stamps.items()):
        while seen[place][0] < number:
            place += 1
        if at > began:  # the reader was there already: a process takes a moment to start
            waits.append((seen[place][1] - at) * 1000)
    return waits
