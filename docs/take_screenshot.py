"""Takes the README's screenshot from a running Fader: asks in a real browser and waits for the whole replies.

Start ``fader run --no-browser`` with an empty FADER_HOME, then run this with the address it prints.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

TARGET = Path(__file__).parent / "images" / "screenshot.png"
QUESTIONS = (
    "Write a haiku about the sea.",
    "Why is the sky blue?",
    "What is the capital of France? Then list three famous sights there.",
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
MINUTE = 60_000


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", nargs="?", default="http://127.0.0.1:7860/")
    parser.add_argument("--output", type=Path, default=TARGET)
    parser.add_argument("--question", action="append", help="may be given several times, each in a chat of its own")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--size", default="1440x900", help="width x height of the window; 390x844 is a phone")
    return parser.parse_args()


def ask(page: Page, question: str) -> None:
    """Ask in a new chat and wait until the reply has ended."""
    page.locator("#new-chat").click()
    page.locator("#prompt textarea").fill(question)
    page.locator("#prompt textarea").press("Enter")
    expect(page.locator("#reply-stats").last).to_be_visible(timeout=5 * MINUTE)
    expect(page.locator("#stop")).to_be_hidden(timeout=MINUTE)


def main() -> None:
    """Take the picture."""
    wanted = arguments()
    width, height = (int(n) for n in wanted.size.split("x"))
    wanted.output.parent.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if wanted.dark else "light",
            reduced_motion="reduce",
        )
        page.goto(wanted.address)
        expect(page.locator("#model-status")).to_have_attribute("data-state", "ready", timeout=5 * MINUTE)
        for question in wanted.question or QUESTIONS:
            ask(page, question)
        page.screenshot(path=wanted.output)
        browser.close()
    print(f"Saved {wanted.output}")


if __name__ == "__main__":
    main()
