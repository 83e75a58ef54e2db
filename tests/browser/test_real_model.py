"""The whole of Fader with its built-in model: the command a user types, the page in a real browser, a real answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPage, Server, serving
from tests.browser.test_chat import finished, last_reply, send

LOAD_MS = 600_000
"""The first start converts the model, which takes minutes on a busy machine."""


@pytest.fixture(scope="module")
def fader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """``fader run`` as a user starts it."""
    home = tmp_path_factory.mktemp("real-home")
    with serving(Server(home, module="app", arguments=("run", "--no-browser"))) as running:
        yield running


@pytest.fixture
def ready(fader: Server, new_page: NewPage) -> Page:
    page = new_page(fader)
    expect(page.locator("#model-status")).to_have_attribute("data-state", "ready", timeout=LOAD_MS)
    return page


def test_the_capital_of_france_is_paris_and_the_conversation_is_there_after_a_reload(ready: Page) -> None:
    send(ready, "What is the capital of France?")
    expect(last_reply(ready)).to_contain_text("Paris", timeout=120_000)
    expect(ready.locator("#reply-stats")).to_contain_text("tokens/s", timeout=120_000)
    expect(ready.locator("#reply-stats")).to_contain_text(re.compile(r"seed \d+"))
    ready.reload()
    expect(ready.locator("#chat .message.user")).to_contain_text("What is the capital of France?")
    expect(last_reply(ready)).to_contain_text("Paris")


def test_a_long_reply_is_stopped_and_the_next_one_works(ready: Page) -> None:
    send(ready, "Write a very long story about a lighthouse.")
    expect(last_reply(ready).locator(".md > div").first).to_be_visible(timeout=120_000)
    ready.locator("#stop").click()
    finished(ready)
    expect(ready.locator("#reply-stats")).to_contain_text("stopped by you")
    send(ready, "Say hello.")
    expect(ready.locator("#chat .message.assistant")).to_have_count(2)
    expect(ready.locator("#reply-stats")).to_be_visible(timeout=180_000)


def test_the_meter_and_the_exact_prompt_are_there_before_sending(ready: Page) -> None:
    ready.locator("#prompt textarea").fill("How many tokens is this?")
    meter = ready.locator("#context-meter")
    expect(meter).to_contain_text(re.compile(r"\d+ of 8,192 tokens"))
    meter.click()
    dialog = ready.get_by_role("dialog", name="The exact prompt")
    expect(dialog).to_contain_text("<|im_start|>user\nHow many tokens is this?<|im_end|>", use_inner_text=True)
    dialog.get_by_role("button", name=re.compile(r"^\d+ tokens$")).click()
    expect(dialog.locator(".prompt-tokens .special").first).to_have_text("<|im_start|>")
    ready.keyboard.press("Escape")
    expect(ready.locator("#prompt textarea")).to_have_value("How many tokens is this?")


def test_the_models_panel_judges_before_it_loads(ready: Page) -> None:
    ready.get_by_role("tab", name="Model").click()
    ready.locator("#model-check").click()
    expect(ready.locator("#model-verdict textarea")).not_to_have_value("", timeout=60_000)
    field = ready.locator("#model-name input")
    field.fill("/nonesuch/model")
    field.press("Enter")
    ready.locator("#model-load").click()
    expect(ready.locator("#model-details .failure")).to_contain_text("There is no model at /nonesuch/model.")
    expect(ready.locator("#model-status")).to_have_attribute("data-state", "ready")
