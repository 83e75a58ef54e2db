"""A process that uses a store until it is killed, and says on its standard output what has been acknowledged.

One JSON line per acknowledged step: ``[kind, ids or texts …]``. What it has printed must be there afterwards. Run as
``python -m tests.storage.worker HOME JOB SEED``.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

from storage import Store, open_store
from tests.storage import samples


def say(*told: str) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def chat(store: Store, rng: random.Random) -> None:
    """Ask, stream, edit, regenerate, delete and undo."""
    talk = samples.conversation(store, f"talk {rng.random()}")
    say("conversation", talk.id)
    leaf: str | None = None
    for number in range(6):
        asked, reply, run = samples.begin(store, talk.id, leaf, f"question {number} {rng.random()}")
        assert asked is not None
        say("message", asked.id, asked.content)
        say("begun", reply.id, run.id)
        text = ""
        for _ in range(rng.randrange(6)):
            text += f"word{rng.randrange(1000)} "
            store.flush_run(run.id, text, "generating")
            say("flushed", reply.id, text)
        store.finish_run(samples.ended(run), text, b"trace")
        say("message", reply.id, text)
        leaf = rng.choice([None, asked.id, reply.id])
        if rng.random() < 0.3:
            store.trash_message(reply.id, subtree=True)
            store.restore_message(reply.id)
            say("message", reply.id, text)


def bring_in(store: Store, rng: random.Random) -> None:
    """Import files of ten conversations."""
    file = Path(sys.argv[1]) / f"import-{rng.random()}.json"
    talks = [
        {
            "conversations": [
                {"from": "human", "value": f"{rng.random()} {n}"},
                {"from": "gpt", "value": "imported " * 50},
            ]
            * 5
        }
        for n in range(10)
    ]
    file.write_text(json.dumps(talks), encoding="utf-8")
    report = store.import_file(file)
    for item in report.items:
        assert item.conversation_id is not None
        say("imported", item.conversation_id)
    file.unlink()


JOBS: dict[str, Callable[[Store, random.Random], None]] = {"chat": chat, "import": bring_in}


def main(home: str, job: str, seed: str) -> None:
    store = open_store(Path(home))
    say("open")
    rng = random.Random(int(seed))
    while True:
        JOBS[job](store, rng)


if __name__ == "__main__":
    main(*sys.argv[1:])
