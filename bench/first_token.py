"""``python -m bench.first_token PORT``: the command ``fader run`` in this process, and a message as soon as its page answers. It prints the
seconds from the start of the process to the page (``page``) and to the first token of the reply (``token``) as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from app.chat import Chat
    from app.settings import Settings

QUESTION = "What is the capital of France?"


def ask_when_it_answers(chat: Chat, address: str) -> None:
    """Send the message as the page would, and end the process at the first token."""
    from app.engine.events import TextDelta

    while not _answers(address):
        time.sleep(0.01)
    page = _age()
    events = chat.send(QUESTION, requested={"max_new_tokens": 4}).run.events()
    next(event for _, event in events if isinstance(event, TextDelta))
    print(json.dumps({"page": page, "token": _age()}), flush=True)
    os._exit(0)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=30):  # noqa: S310  (our own server)
            return True
    except urllib.error.URLError:
        return False


def _age() -> float:
    return time.time() - psutil.Process().create_time()


def main(port: int) -> None:
    """The command itself, with somebody who waits for its page."""
    from app import cli

    make, address = cli.chat_of, f"http://127.0.0.1:{port}/healthz"

    @contextmanager
    def watched(settings: Settings) -> Iterator[Chat]:
        with make(settings) as chat:
            Thread(target=ask_when_it_answers, args=(chat, address), daemon=True).start()
            yield chat

    cli.chat_of = watched
    cli.run(port=port, no_browser=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
