"""Serves the page over fakes on a port, for the browser tests and for looking at it: ``python -m tests.browser.serve_fake --port PORT``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from app.chat import Chat
from app.engine.engine import Engine
from app.engine.run import RunRequest
from app.settings import Settings
from storage import open_store
from tests.ui.fakes import FakeEngine, said
from ui.serve import serve

SLOWLY = 4_000
"""Paragraphs of a reply that is still being written whatever a busy machine does meanwhile."""
SHOW = Path(__file__).with_name("showcase.md")


def script(request: RunRequest) -> Iterator[str]:
    """What the last message asks for: "showcase", "think", "fail", "slow", "burst" (all at once), or an echo."""
    words = said(request)
    if "fail" in words:
        yield "It began well, "
        message = "The model's numbers became NaN. Try another precision."
        raise RuntimeError(message)
    text = SHOW.read_text() if "showcase" in words else f"You said: {words}"
    if "think" in words:
        yield from ("<think>", "First I look at the question.", " Then I answer.", "</think>", "\n\n")
    many = "slow" in words or "burst" in words
    for _ in range(SLOWLY if "slow" in words else 400 if many else 1):
        yield from (text[i : i + 5] for i in range(0, len(text), 5))
        yield "\n\n" if many else ""


if __name__ == "__main__":
    settings = Settings(port=int(sys.argv[sys.argv.index("--port") + 1]))
    store = open_store(settings.home)
    store.interrupt_orphans()
    engine = FakeEngine(script, step_s=0.01)
    engine.pause = lambda request: 0.0 if "burst" in said(request) else 0.01
    engine.chunks = lambda request: 2_000 if "long prompt" in said(request) else 1
    chat = Chat(store, cast(Engine, engine), settings)
    serve(chat, settings, open_browser=False)
