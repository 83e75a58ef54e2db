"""Sending, streaming, stopping and going on, as a user sees it in a browser."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import SERVER_GONE, NewPage, Server, Watch, serving


def send(page: Page, text: str) -> None:
    page.locator("#prompt textarea").fill(text)
    page.keyboard.press("Enter")


def last_reply(page: Page) -> Locator:
    return page.locator("#chat .message.assistant").last


def finished(page: Page) -> None:
    expect(page.locator("#reply-stats")).to_be_visible()
    expect(page.locator(".message.live")).to_have_count(0)


def test_a_message_is_sent_with_enter_and_answered(page: Page) -> None:
    send(page, "Hello there")
    expect(page.locator("#chat .message.user")).to_have_text(re.compile("Hello there"))
    expect(last_reply(page)).to_contain_text("You said: Hello there")
    expect(page.locator("#prompt textarea")).to_have_value("")
    figures = page.locator("#reply-stats")
    for words in ("tokens", "34.5 tokens/s", "first after 120 ms", "finished", "seed 42", "8 tokens reused"):
        expect(figures).to_contain_text(words)
    expect(page).to_have_url(re.compile(r"/\?c=[0-9a-f]{32}$"))
    expect(page.locator("#conversation-list .row.current")).to_contain_text("Hello there")


def test_shift_enter_breaks_the_line_and_the_button_sends(page: Page) -> None:
    box = page.locator("#prompt textarea")
    box.fill("one")
    box.press("Shift+Enter")
    box.press_sequentially("two")
    expect(box).to_have_value("one\ntwo")
    page.locator("#send").click()
    expect(page.locator("#chat .message.user .bubble")).to_have_text("one\ntwo", use_inner_text=True)


def test_the_reply_streams_and_stop_keeps_what_is_there(page: Page) -> None:
    send(page, "slow count")
    reply = last_reply(page)
    expect(reply).to_contain_text("You said: slow count")
    expect(reply).to_have_attribute("aria-busy", "true")
    page.locator("#stop").click()
    finished(page)
    expect(page.locator("#reply-stats")).to_contain_text("stopped by you")
    expect(reply).to_contain_text("You said: slow count")
    expect(page.locator("#send")).to_be_visible()


def test_escape_stops_and_the_next_message_goes_out_at_once(page: Page) -> None:
    send(page, "slow one")
    expect(last_reply(page)).to_contain_text("You said")
    page.keyboard.press("Escape")
    send(page, "after the stop")
    expect(page.locator("#chat .message.user")).to_have_count(2)
    expect(last_reply(page)).to_contain_text("You said: after the stop")


def test_a_message_typed_while_a_reply_is_written_stays_in_the_box(page: Page) -> None:
    send(page, "slow two")
    expect(last_reply(page)).to_contain_text("You said")
    send(page, "too early")
    expect(page.locator("#composer-note")).to_contain_text("still being written")
    expect(page.locator("#prompt textarea")).to_have_value("too early")
    page.locator("#stop").click()
    finished(page)


def test_a_failed_run_says_why_in_the_reply_and_the_next_one_works(page: Page) -> None:
    send(page, "please fail")
    reply = last_reply(page)
    expect(reply).to_contain_text("It began well,")
    expect(reply.get_by_role("alert")).to_contain_text("The model's numbers became NaN. Try another precision.")
    reply.get_by_role("button", name="Try again").click()
    expect(reply.locator(".pager")).to_contain_text("2/2")
    send(page, "now without trouble")
    expect(last_reply(page)).to_contain_text("You said: now without trouble")


def test_reload_during_a_reply_goes_on_and_is_complete(page: Page) -> None:
    send(page, "slow and long")
    expect(last_reply(page)).to_contain_text("You said")
    page.reload()
    expect(last_reply(page)).to_have_attribute("aria-busy", "true")
    expect(last_reply(page)).to_contain_text("You said: slow and long")
    finished_text = page.evaluate("fader.shown.followers.size")
    assert finished_text == 1
    page.locator("#stop").click()
    finished(page)
    shown = last_reply(page).locator(".md > div").all_inner_texts()
    assert set(shown[:-1]) == {"You said: slow and long"}


def test_reload_while_the_prompt_is_read_and_stop_there(page: Page) -> None:
    send(page, "a long prompt")
    expect(last_reply(page)).to_contain_text("Reading the prompt")
    expect(last_reply(page).locator("progress")).to_be_visible()
    page.reload()
    expect(last_reply(page).locator("progress")).to_be_visible()
    page.keyboard.press("Escape")
    finished(page)
    expect(page.locator("#reply-stats")).to_contain_text("stopped by you")


def test_two_tabs_see_the_same_reply_and_mix_nothing(page: Page, new_page: NewPage, server: Server) -> None:
    send(page, "slow first tab")
    expect(last_reply(page)).to_contain_text("You said: slow first tab")
    same = new_page(server, page.url.removeprefix(server.address), beside=page)
    expect(last_reply(same)).to_contain_text("You said: slow first tab")
    other = new_page(server, beside=page)
    send(other, "second tab")
    expect(last_reply(other)).to_contain_text("Waiting")
    page.locator("#stop").click()
    expect(last_reply(other)).to_contain_text("You said: second tab")
    finished(same)
    expect(page.locator("#chat")).not_to_contain_text("second tab")


def test_switching_while_a_reply_streams_mixes_nothing(page: Page) -> None:
    send(page, "slow left behind")
    expect(last_reply(page)).to_contain_text("You said")
    page.locator("#new-chat").click()
    expect(page.locator("#chat .message")).to_have_count(0)
    expect(page.locator("#chat .empty")).to_be_visible()
    page.locator("#conversation-list .row", has_text="slow left behind").first.click()
    expect(last_reply(page)).to_have_attribute("aria-busy", "true")
    page.locator("#stop").click()
    finished(page)


def test_waiting_tabs_know_their_place_and_move_up(page: Page, new_page: NewPage, server: Server) -> None:
    send(page, "slow first in line")
    expect(last_reply(page)).to_contain_text("You said")
    second, third = new_page(server), new_page(server)
    send(second, "second in line")
    expect(last_reply(second)).to_contain_text("Waiting: one reply before this one")
    send(third, "third in line")
    expect(last_reply(third)).to_contain_text("Waiting: 2 replies before this one")
    last_reply(second).get_by_role("button", name="Cancel").click()
    expect(last_reply(second).locator(".mark")).to_contain_text("Stopped here")
    expect(last_reply(third)).to_contain_text("Waiting: one reply before this one")
    expect(last_reply(page)).to_have_attribute("aria-busy", "true")
    page.locator("#stop").click()
    expect(last_reply(third)).to_contain_text("You said: third in line")


def test_a_lost_connection_is_taken_up_where_it_was(page: Page, watch: Watch) -> None:
    watch.expected = ("Failed to load resource", "ERR_INTERNET_DISCONNECTED", "fetch")
    send(page, "slow on a bad line")
    expect(last_reply(page).locator(".md > div").nth(3)).to_be_attached()
    page.context.set_offline(True)
    expect(page.locator("#model-status")).to_contain_text("not answering")
    seen = last_reply(page).locator(".md > div").count()
    page.context.set_offline(False)
    expect(last_reply(page).locator(".md > div").nth(seen + 5)).to_be_attached()
    page.locator("#stop").click()
    finished(page)
    shown = last_reply(page).locator(".md > div").all_inner_texts()
    assert set(shown[:-1]) == {"You said: slow on a bad line"}
    page.reload()
    expect(last_reply(page).locator(".md > div")).to_have_text(shown, use_inner_text=True)


def test_what_comes_faster_than_a_screen_shows_is_shown_together(page: Page) -> None:
    page.evaluate(
        """() => {
          window.updates = 0;
          new MutationObserver(() => { window.updates += 1; })
            .observe(document.querySelector("#chat-log"), { subtree: true, attributeFilter: ["data-seq"] });
        }"""
    )
    send(page, "burst of words")
    finished(page)
    blocks = last_reply(page).locator(".md > div")
    expect(blocks).to_have_count(400)
    assert set(blocks.all_inner_texts()) == {"You said: burst of words"}
    assert page.evaluate("window.updates") < 400, "2,800 pieces came"


def test_a_waiting_reply_can_be_cancelled_in_its_place(page: Page, new_page: NewPage, server: Server) -> None:
    send(page, "slow holder")
    expect(last_reply(page)).to_contain_text("You said")
    other = new_page(server)
    send(other, "waiting")
    expect(last_reply(other)).to_contain_text("Waiting")
    last_reply(other).get_by_role("button", name="Cancel").click()
    page.locator("#stop").click()
    finished(page)
    expect(other.locator(".message.live")).to_have_count(0)
    expect(last_reply(other)).not_to_contain_text("You said")


def test_thinking_is_folded_away_when_the_answer_is_there(page: Page) -> None:
    send(page, "think showcase")
    finished(page)
    thinking = last_reply(page).locator("details.thinking")
    expect(thinking).to_have_js_property("open", value=False)
    thinking.locator("summary").click()
    expect(thinking).to_contain_text("First I look at the question. Then I answer.")
    expect(last_reply(page)).not_to_contain_text("<think>")


def test_markdown_code_tables_and_formulas_are_shown(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    send(page, "showcase")
    finished(page)
    reply = last_reply(page)
    expect(reply.locator("math").first).to_be_visible()
    expect(reply.locator("table td").first).to_have_text("1")
    expect(reply.locator(".code-block .hl-kn").first).to_have_text("import")
    reply.get_by_role("button", name="Copy code").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("import numpy as np\n\n\ndef square_wave")


@pytest.mark.parametrize("blank", ["", "   ", "\n"])
def test_a_blank_message_is_not_sent(page: Page, blank: str) -> None:
    send(page, blank)
    page.locator("#send").click()
    expect(page.locator("#chat .empty")).to_be_visible()
    expect(page.locator("#chat .message")).to_have_count(0)


def test_a_message_over_the_limit_stays_whole_and_is_explained(page: Page) -> None:
    page.locator("#prompt textarea").fill("x" * 200_001)
    page.keyboard.press("Enter")
    expect(page.locator("#composer-note")).to_contain_text("200,001 characters; the limit is 200,000")
    assert page.evaluate("document.querySelector('#prompt textarea').value.length") == 200_001


def test_a_pasted_book_is_sent_without_freezing_the_page(page: Page) -> None:
    page.locator("#prompt textarea").fill("word " * 20_000)
    page.keyboard.press("Enter")
    expect(page.locator("#chat .message.user .bubble")).to_contain_text("word word")
    expect(page.locator("#stop")).to_be_visible()
    page.locator("#stop").click()
    finished(page)


def test_after_a_restart_of_the_server_the_page_goes_on(own_server: Server, new_page: NewPage, watch: Watch) -> None:
    watch.expected = SERVER_GONE
    page = new_page(own_server)
    send(page, "slow before the crash")
    expect(last_reply(page).locator(".md > div")).not_to_have_count(0)
    page.wait_for_function("document.querySelector('.message.assistant .md').innerText.length > 400")
    own_server.stop(kill=True)
    expect(page.locator("#model-status")).to_contain_text("not answering")
    page.locator("#prompt textarea").fill("still here")
    own_server.start()
    expect(last_reply(page).locator(".mark")).to_contain_text("Continue takes it up again")
    expect(last_reply(page)).to_contain_text("You said: slow before the crash")
    expect(page.locator("#prompt textarea")).to_have_value("still here")
    page.keyboard.press("Enter")
    expect(last_reply(page)).to_contain_text("You said: still here")


def test_a_message_sent_into_the_void_is_kept(own_server: Server, new_page: NewPage, watch: Watch) -> None:
    watch.expected = SERVER_GONE
    page = new_page(own_server)
    own_server.stop(kill=True)
    expect(page.locator("#model-status")).to_contain_text("not answering")
    send(page, "not lost")
    expect(page.locator("#composer-note")).to_contain_text("What you typed is kept", timeout=30_000)
    expect(page.locator("#prompt textarea")).to_have_value("not lost")
    own_server.start()
    expect(page.locator("#model-status")).to_contain_text("Fake")
    page.reload()
    expect(page.locator("#prompt textarea")).to_have_value("not lost")


def test_a_password_is_asked_for_once(tmp_path: Path, browser: Browser) -> None:
    locked = Server(tmp_path, environment={"FADER_PASSWORD": "open sesame"})
    with serving(locked), closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(locked.address)
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("That is not the password.")
        page.get_by_label("Password").fill("open sesame")
        page.keyboard.press("Enter")
        page.wait_for_selector("body.fader-ready")
        send(page, "let in")
        expect(last_reply(page)).to_contain_text("You said: let in")
