"""Measures the store at growing sizes: list, open, search as one types, append, start-up, file size, export and import.

``python -m bench.storage --messages 1000000 --conversations 20000 --json out.json``. The data is made up from a fixed seed: half
of the messages are replies with runs and token ids, a tenth is Chinese, words are as unevenly frequent as in real text.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from app.conversation import Conversation, FinishReason, Message, Role, Run, RunStatus, Stats, new_id, now
from app.settings import DATABASE_NAME
from app.transfer import ExportFormat
from storage import Store, open_store

Figures: TypeAlias = dict[str, Any]

_START = datetime(2023, 1, 1, tzinfo=UTC)
_SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "je",
    "ki",
    "lo",
    "mu",
    "na",
    "pe",
    "ri",
    "so",
    "tu",
    "va",
    "we",
    "xi",
    "yo",
    "zu",
    "st",
    "tr",
    "ing",
    "er",
    "on",
    "al",
]
_HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
_LONG = 200
"""Messages of the conversation that is opened."""


class Author:
    """Makes conversations up."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.words = sorted({"".join(self.rng.choices(_SYLLABLES, k=self.rng.randint(1, 4))) for _ in range(60_000)})
        self.rng.shuffle(self.words)
        self.weights = [1e-9]
        for rank in range(1, len(self.words)):
            self.weights.append(self.weights[-1] + 1 / rank)
        self.han = [1e-9]
        for rank in range(1, len(_HAN)):
            self.han.append(self.han[-1] + 1 / rank)
        self.ids = [self.rng.randrange(49_152) for _ in range(4_000)]

    def text(self) -> str:
        """Some sentences."""
        if self.rng.random() < 0.1:
            return "".join(self.rng.choices(_HAN, cum_weights=self.han, k=self.rng.randint(20, 150)))
        words = self.rng.choices(self.words, cum_weights=self.weights, k=self.rng.randint(10, 130))
        return " ".join(words).capitalize() + "."

    def conversation(self, count: int, began: datetime) -> tuple[Conversation, list[Message]]:
        """A conversation of ``count`` messages."""
        talk = Conversation(title=self.text()[:40], created_at=began, updated_at=began + timedelta(minutes=count))
        messages: list[Message] = []
        for place in range(count):
            parent = messages[-1].id if messages else None
            role = Role.ASSISTANT if place % 2 else Role.USER
            at = began + timedelta(minutes=place)
            message = Message(new_id(), talk.id, parent, role, self.text(), at)
            messages.append(replace(message, run=self.run(message, place)) if place % 2 else message)
        return replace(talk, shown_leaf=messages[-1].id), messages

    def run(self, message: Message, place: int) -> Run:
        """The run of a reply, with a prompt of 60 tokens for every message before it, at most 2,000."""
        temperature = self.rng.choice([0.2, 0.7, 1.0, 1.3])
        failed = self.rng.random() < 0.01
        effective = {f"parameter_{n}": n / 7 for n in range(60)} | {
            "temperature": temperature,
            "seed": self.rng.getrandbits(31),
        }
        return Run(
            id=new_id(),
            message_id=message.id,
            status=RunStatus.FAILED if failed else RunStatus.DONE,
            finish_reason=FinishReason.ERROR if failed else FinishReason.EOS,
            model_fingerprint={
                "name": self.rng.choice(["builtin", "baidu/ERNIE-4.5-21B-A3B", "qwen.gguf"]),
                "quantization": "nf4",
            },
            requested={"temperature": temperature},
            effective=effective,
            explained={name: {"source": "default", "reason": "not set", "active": True} for name in effective},
            seed=effective["seed"],  # type: ignore[arg-type]
            prompt_ids=tuple(self.ids[: min(60 * place, 2_000)]),
            output_ids=tuple(self.ids[-len(message.content) // 5 :]),
            stats=Stats(60 * place, 80, 0.2, 25.0, 0),
            error="out of memory" if failed else None,
            created_at=message.created_at,
            finished_at=message.created_at,
        )


def fill(store: Store, author: Author, messages: int, conversations: int) -> float:
    """Add conversations until there are so many; returns messages a second."""
    each, began = messages // conversations, time.perf_counter()
    spent = 0.0
    for place in range(conversations):
        talk, told = author.conversation(each, _START + timedelta(hours=place * 26_000 / conversations))
        start = time.perf_counter()
        store.add_conversation(talk, told)
        spent += time.perf_counter() - start
        if place % 1000 == 999:
            print(f"  {place + 1} conversations, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return messages / spent


def timed(work: Callable[[], object]) -> float:
    """Milliseconds that a piece of work takes."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def both(work: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds that a piece of work takes, by the clock and of this thread's processor time: on a busy machine they differ."""
    cpu = time.thread_time()
    wall = timed(work)
    return wall, (time.thread_time() - cpu) * 1000


def summary(times: Sequence[float]) -> Figures:
    """Median, 95th percentile and worst, in milliseconds."""
    ordered = sorted(times)
    worst = {
        "median_ms": statistics.median(ordered),
        "p95_ms": ordered[int(0.95 * (len(ordered) - 1))],
        "worst_ms": ordered[-1],
    }
    return {name: round(value, 3) for name, value in worst.items()}


def typed(author: Author) -> Iterator[str]:
    """What is in the search box after each key of a number of queries."""
    frequent, rare = author.words[1:40], author.words[20_000:20_040]
    queries = [author.rng.choice(frequent) for _ in range(8)] + [author.rng.choice(rare) for _ in range(8)]
    queries += [f"{author.rng.choice(frequent)} {author.rng.choice(frequent)}" for _ in range(6)]
    queries += [f"{author.rng.choice(frequent)} {author.rng.choice(rare)}" for _ in range(6)]
    queries += ["".join(author.rng.choices(_HAN[:60], k=4)) for _ in range(6)] + [
        "".join(author.rng.choices(_HAN, k=3)) for _ in range(6)
    ]
    for query in queries:
        yield from (query[:end] for end in range(1, len(query) + 1))
    word = author.rng.choice(frequent)
    for place in ("has:error", "model:ernie", "param:temperature>1", "after:2024-06", "before:2023-02"):
        yield from (place, f"{place} {word}", f"{place} {author.rng.choice(rare)}")
    yield from ("nothing at all", "qqqq", "zzzz zzzz")


def append(store: Store, author: Author, talk: Conversation) -> Figures:
    """A message, a reply that grows to 20 kB, its end: as during a conversation."""
    begin, flush, finish = [], [], []
    for _ in range(10):
        asked = Message(new_id(), talk.id, None, Role.USER, author.text())
        reply = Message(new_id(), talk.id, asked.id, Role.ASSISTANT, "")
        run = Run(new_id(), reply.id)
        begin.append(timed(lambda: store.begin_run([asked, reply], run)))  # noqa: B023 (called at once)
        text = ""
        while len(text) < 20_000:
            text += author.text() + "\n"
            flush.append(timed(lambda: store.flush_run(run.id, text, "generating")))  # noqa: B023
        done = replace(author.run(reply, 20), id=run.id)
        finish.append(timed(lambda: store.finish_run(done, text)))  # noqa: B023
    return {"begin": summary(begin), "flush": summary(flush), "finish": summary(finish)}


def measure(home: Path, author: Author) -> Figures:
    """All figures of a store at its present size."""
    figures: Figures = {"file_mb": round((home / DATABASE_NAME).stat().st_size / 2**20, 1)}
    start = time.perf_counter()
    store = open_store(home)
    figures["open_ms"] = round((time.perf_counter() - start) * 1000, 1)
    try:
        figures["list_first_page"] = summary([timed(store.conversations) for _ in range(50)])
        talk, told = author.conversation(_LONG, now())
        store.add_conversation(talk, told)
        figures["open_conversation"] = summary([timed(lambda: store.branch(talk.id)) for _ in range(30)])
        keys = [(query, *both(lambda: store.conversations(query))) for query in typed(author)]  # noqa: B023
        figures["search_keystroke"] = summary([wall for _, wall, _ in keys])
        figures["search_keystroke_cpu"] = summary([cpu for _, _, cpu in keys])
        slowest = sorted(keys, key=lambda key: -key[2])[:8]
        figures["slowest_queries"] = [[query, round(wall, 1), round(cpu, 1)] for query, wall, cpu in slowest]
        figures["append"] = append(store, author, talk)
    finally:
        store.close()
    return figures


def out_and_in(author: Author, folder: Path) -> Figures:
    """Export and import speed, with 200 conversations of 50 messages."""
    one, other = open_store(folder / "one"), open_store(folder / "other")
    try:
        fill(one, author, 10_000, 200)
        figures: Figures = {}
        for form in ExportFormat:
            file = folder / f"all.{form.value}"
            figures[f"export_{form.value}_messages_per_s"] = round(10_000e3 / timed(lambda: one.export_file(file)))  # noqa: B023
        figures["fader_json_mb"] = round((folder / "all.json").stat().st_size / 2**20, 1)
        figures["import_json_messages_per_s"] = round(10_000e3 / timed(lambda: other.import_file(folder / "all.json")))
    finally:
        one.close()
        other.close()
    return figures


def main() -> None:
    """Measure at the size asked for and, to show the growth, at every tenth of it down to 10,000 messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--conversations", type=int, help="default: one for every 50 messages")
    parser.add_argument("--json", type=Path, dest="file", help="where to write the figures")
    parser.add_argument("--folder", type=Path, help="where to make the data (removed afterwards)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    sizes = [asked.messages]
    while sizes[-1] // 10 >= 10_000:
        sizes.append(sizes[-1] // 10)
    result: Figures = {"seed": asked.seed, "load_average": psutil.getloadavg()[0], "cores": os.cpu_count(), "sizes": []}
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        result |= out_and_in(Author(asked.seed), Path(folder))
        for size in reversed(sizes):
            conversations = max(1, (asked.conversations or asked.messages // 50) * size // asked.messages)
            author, home = Author(asked.seed), Path(folder) / str(size)
            store = open_store(home)
            speed = fill(store, author, size, conversations)
            store.close()
            figures = {
                "messages": size,
                "conversations": conversations,
                "add_messages_per_s": round(speed),
                **measure(home, author),
            }
            result["sizes"].append(figures)
            print(json.dumps(figures, indent=2, ensure_ascii=False))
    if asked.file:
        asked.file.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
