"""“Start the reply with”: typed words that the next reply begins with, by mouse, by keyboard and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPage, Server


@pytest.mark.parametrize("width", [1280, 390])
def test_the_next_reply_starts_with_the_typed_words_and_the_one_after_does_not(
    new_page: NewPage, server: Server, width: int
) -> None:
    page = new_page(server, width=width)
    opener, field = page.locator("#reply-start-open"), page.get_by_label("Start the reply with", exact=True)
    expect(field).to_be_hidden()
    page.locator("#prompt textarea").fill("hello")
    opener.focus()
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(field).to_be_focused()
    field.fill("Certainly: ")
    field.press("Enter")
    reply = page.locator("#chat .message.assistant").last
    expect(reply).to_contain_text("Certainly: You said: hello")
    expect(field).to_be_hidden()
    page.locator("#prompt textarea").fill("again")
    page.locator("#send").click()
    expect(reply).to_contain_text("You said: again")
    expect(reply).not_to_contain_text("Certainly")


def test_escape_closes_the_line_and_forgets_it(new_page: NewPage, server: Server) -> None:
    page = new_page(server)
    page.locator("#reply-start-open").click()
    field = page.get_by_label("Start the reply with", exact=True)
    field.fill("Never mind")
    field.press("Escape")
    expect(field).to_be_hidden()
    expect(page.locator("#prompt textarea")).to_be_focused()
    page.locator("#reply-start-open").click()
    expect(field).to_have_value("")
