"""A conversation that outgrows a tiny real model: what no longer fits is marked, and the preview tells the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPage, Server, serving

TALKING = "word " * 40
"""About a hundred of the 512 tokens that the model reads."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("context-home")
    server = Server(home, module="tests.browser.serve_insight", environment={"TINY_MODEL": str(home)})
    with serving(server) as running:
        yield running


def say(page: Page, text: str) -> None:
    count = page.locator("#chat .message.assistant .reply-stats").count()
    page.locator("#prompt textarea").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator("#chat .message.assistant .reply-stats")).to_have_count(count + 1)


def choose_policy(page: Page, name: str) -> None:
    page.locator("#param-context_policy input").click()
    page.get_by_role("option", name=name).click()
    expect(page.locator("#row-context_policy .parameter-mark")).to_have_attribute(
        "aria-label", re.compile(f": {name},")
    )


def test_what_no_longer_fits_is_marked_and_missing_from_the_exact_prompt(new_page: NewPage, real: Server) -> None:
    page = new_page(real, width=1440)
    page.wait_for_selector("body.parameters-ready")
    page.locator("#param-max_new_tokens input[type=number]").fill("8")
    expect(page.locator("#effective")).to_contain_text(re.compile(r"max_new_tokens\s*8"))
    say(page, f"The first of all. {TALKING}")
    expect(page.locator("#context-meter")).to_contain_text("of 512 tokens")
    expect(page.locator(".context-badge")).to_have_count(0)
    for number in range(2, 6):
        say(page, f"Message {number}. {TALKING}")
    first, last = page.locator("#chat .message.user").first, page.locator("#chat .message.user").last
    expect(first.locator(".context-badge")).to_have_text("Not in the model’s context")
    expect(last.locator(".context-badge")).to_have_count(0)
    expect(page.locator("#context-meter")).to_contain_text("left out")
    expect(page.locator("#chat .message.assistant").last).to_contain_text("The context is full")
    page.reload()
    expect(first.locator(".context-badge")).to_have_text("Not in the model’s context")
    page.locator("#prompt textarea").fill("And now?")
    page.locator("#context-meter").click()
    dialog = page.get_by_role("dialog", name="The exact prompt")
    expect(dialog.locator(".prompt-text")).to_contain_text("And now?")
    expect(dialog.locator(".prompt-text")).not_to_contain_text("The first of all")
    dialog.get_by_role("button", name=re.compile("tokens$")).click()
    expect(dialog.locator(".prompt-tokens .special").first).to_have_text("<|im_start|>")
    told = int(re.sub(r"\D", "", dialog.get_by_role("button", name=re.compile("tokens$")).inner_text()))
    expect(dialog.locator(".prompt-tokens span")).to_have_count(told)
    dialog.get_by_role("button", name="Close").click()
    say(page, "And now?")
    expect(page.locator("#chat .reply-stats").last.get_by_title(f"{told:,} tokens of prompt")).to_be_visible()


def test_the_policy_stop_says_why_and_another_policy_goes_on(new_page: NewPage, real: Server) -> None:
    page = new_page(real, width=1440)
    page.wait_for_selector("body.parameters-ready")
    page.locator("#param-max_new_tokens input[type=number]").fill("8")
    page.locator("#group-own > .label-wrap").click()
    choose_policy(page, "stop")
    say(page, f"First. {TALKING * 3}")
    page.locator("#prompt textarea").fill(f"Second. {TALKING * 3}")
    page.keyboard.press("Enter")
    refusal = page.locator("#chat .message.assistant").last.get_by_role("alert")
    expect(refusal).to_contain_text("no longer fits into the model's context, and the context policy is “stop”")
    expect(page.locator("#chat .message.user").last).to_contain_text("Second.")
    choose_policy(page, "drop oldest")
    refusal.get_by_role("button", name="Try again").click()
    expect(page.locator("#chat .message.assistant").last.locator(".reply-stats")).to_contain_text("8 tokens")
    expect(page.locator("#chat .message.user").first.locator(".context-badge")).to_be_visible()


def test_a_model_unloaded_by_hand_is_missed_in_words_and_comes_back(new_page: NewPage, real: Server) -> None:
    page = new_page(real, width=1440)
    page.get_by_role("tab", name="Model").click()
    page.locator("#model-unload").click()
    expect(page.locator("#model-status")).to_have_attribute("data-state", "none")
    page.locator("#prompt textarea").fill("Anybody there?")
    page.locator("#prompt textarea").press("Enter")
    alone = page.locator("#chat .message.assistant").last.get_by_role("alert")
    expect(alone).to_contain_text("No model is loaded. Choose one under “Models”")
    page.locator("#model-name input").fill("tiny")
    page.locator("#model-name input").press("Enter")
    page.locator("#model-load").click()
    expect(page.locator("#model-status")).to_have_attribute("data-state", "ready")
    alone.get_by_role("button", name="Try again").click()
    expect(page.locator("#reply-stats")).to_be_visible()
