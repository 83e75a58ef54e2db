"""From token to screen: a real browser follows replies as a person's does, and each token's way into its page is timed.

Browser, server and engine run on one machine and read one clock. A token counts as shown when the page's elements have changed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from app.chat import Chat
from bench.parts import exactly, raw_speed
from bench.report import Figure, alternate, quantile
from bench.streaming import fill, stamped

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
PATIENCE_MS = 300_000
POLLING_MS = 300
"""Looking for the end at every frame, as Playwright would by itself, keeps the browser busy."""
WATCH = """() => {
    window.seen = [];
    new MutationObserver((changes) => {
        const at = (performance.timeOrigin + performance.now()) / 1000;
        for (const { target } of changes) window.seen.push([Number(target.dataset.seq), at]);
    }).observe(document.querySelector("#chat-log"), { subtree: true, attributeFilter: ["data-seq"] });
}"""
WRITTEN = "count => document.querySelectorAll('.message.assistant .reply-stats').length > count"


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium, or None where there is none to measure with."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=path, args=FLAGS)


def measure(chromium: Any, chat: Chat, address: str, size: int, rounds: int, tokens: int) -> Iterator[Figure]:
    """A chat of ``size`` messages, shown in a window of its own."""
    talk, _ = fill(chat, size)
    chat.store.update_conversation(talk, parameters=exactly(tokens))
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"http://{address}/?c={talk}")
    page.wait_for_selector("body.fader-ready.parameters-ready")
    page.evaluate(WATCH)
    waits: list[float] = []
    prompt: tuple[int, ...] = ()

    def followed() -> float:
        nonlocal prompt
        with stamped(time.time) as stamps:
            say(page, "Go on.")
        waits.extend(latencies(stamps, page.evaluate("window.seen.splice(0)")))
        run = chat.store.branch(talk)[-1].message.run
        assert run is not None and run.stats.tokens_per_s is not None, run  # noqa: S101, PT018
        prompt = run.prompt_ids
        return run.stats.tokens_per_s

    followed()
    waits.clear()
    ours, theirs = alternate(followed, lambda: raw_speed(chat.engine, prompt, tokens), rounds)
    page.close()
    name = f"in a chat of {size:,} messages"
    yield Figure(f"streaming to a browser {name}", "tokens/s", ours, "model.generate", theirs, "≥ 0.97")
    yield Figure(f"token to screen {name}, median", "ms", [quantile(waits, 0.5)])
    yield Figure(f"token to screen {name}, p95", "ms", [quantile(waits, 0.95)], goal="≤ 50 ms")


def say(page: Any, text: str) -> None:
    """Send a message by keyboard and wait until its reply is finished on the page."""
    finished = page.locator(".message.assistant .reply-stats").count()
    page.locator("#prompt textarea").fill(text)
    page.locator("#prompt textarea").press("Enter")
    page.wait_for_function(WRITTEN, arg=finished, polling=POLLING_MS)


def latencies(stamps: dict[int, float], seen: list[tuple[int, float]]) -> list[float]:
    """Milliseconds from each token's event to the page's first change that shows it; the last update of a run has no number."""
    waits, place = [], 0
    for number, at in sorted(stamps.items()):
        while place < len(seen) and seen[place][0] < number:
            place += 1
        if place < len(seen):
            waits.append((seen[place][1] - at) * 1000)
    return waits
