"""Serves the page over fakes on a port, for the browser tests and for looking at it: ``python -m tests.browser.serve_fake PORT``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from app.chat import Chat
from app.engine.run import RunRequest
from app.settings import Settings
from tests.ui.fakes import FakeEngine, MemoryStore

SHOW = Path(__file__).with_name("showcase.md")


def script(request: RunRequest) -> Iterator[str]:
    """What the last message asks for: "showcase", "think", "fail", "slow", or an echo."""
    said = request.messages[-1].content
    if "fail" in said:
        yield "It began well, "
        message = "The model's numbers became NaN. Try another precision."
        raise RuntimeError(message)
    text = SHOW.read_text() if "showcase" in said else f"You said: {said}"
    if "think" in said:
        yield "(thinking)First I look at the question."
        yield "(thinking) Then I answer."
    for _ in range(400 if "slow" in said else 1):
        yield from (text[i : i + 5] for i in range(0, len(text), 5))
        yield "\n\n" if "slow" in said else ""


if __name__ == "__main__":
    from ui.server import create_app

    settings = Settings(port=int(sys.argv[1]))
    chat = Chat(MemoryStore(), FakeEngine(script, step_s=0.01), settings)  # type: ignore[arg-type]
    uvicorn.run(create_app(chat, settings), host="127.0.0.1", port=settings.port, log_level="warning")
