"""The list of conversations: finding, renaming, pinning, deleting with undo, the trash, many at once."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NewPage, Server
from tests.browser.test_chat import finished, last_reply, send


def row(page: Page, text: str) -> Locator:
    return page.locator("#conversation-list .row", has_text=text)


def choose(page: Page, text: str, action: str) -> None:
    row(page, text).hover()
    row(page, text).get_by_role("button", name="Actions on").click()
    page.get_by_role("menuitem", name=action, exact=True).click()


def made(page: Page, *texts: str) -> None:
    for text in texts:
        page.locator("#new-chat").click()
        send(page, text)
        finished(page)
        expect(row(page, text[:20])).to_have_count(1)


def test_a_fresh_page_helps_on(own_server: Server, new_page: NewPage) -> None:
    page = new_page(own_server)
    expect(page.locator("#conversation-list")).to_contain_text("Your conversations will be listed here.")
    page.get_by_role("button", name="What is the capital of France?").click()
    expect(page.locator("#prompt textarea")).to_have_value("What is the capital of France?")


def test_rename_in_place(page: Page) -> None:
    made(page, "rename me")
    choose(page, "rename me", "Rename")
    field = page.get_by_label("New name")
    expect(field).to_be_focused()
    field.fill("Holidays <b>2027</b>")
    field.press("Enter")
    expect(row(page, "Holidays <b>2027</b>")).to_have_count(1)
    expect(page.locator("#conversation-title")).to_have_text("Holidays <b>2027</b>")
    page.reload()
    expect(row(page, "Holidays <b>2027</b>")).to_have_count(1)
    expect(page).to_have_title("Holidays <b>2027</b> · Fader")


def test_escape_leaves_the_name_alone(page: Page) -> None:
    made(page, "keep this name")
    choose(page, "keep this name", "Rename")
    page.get_by_label("New name").fill("other")
    page.keyboard.press("Escape")
    expect(row(page, "keep this name")).to_have_count(1)


def test_pinned_conversations_come_first(page: Page) -> None:
    made(page, "pin this one", "newer than the pin")
    choose(page, "pin this one", "Pin")
    first = page.locator("#conversation-list .row").first
    expect(first).to_contain_text("pin this one")
    expect(page.locator("#conversation-list h3").first).to_have_text("Pinned")
    choose(page, "pin this one", "Unpin")
    expect(first).not_to_contain_text("pin this one")


def test_delete_and_undo(page: Page) -> None:
    made(page, "delete and undo")
    choose(page, "delete and undo", "Delete")
    expect(row(page, "delete and undo")).to_have_count(0)
    expect(page.locator("#chat .empty")).to_be_visible()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(row(page, "delete and undo")).to_have_count(1)
    row(page, "delete and undo").click()
    expect(last_reply(page)).to_contain_text("You said: delete and undo")


def test_the_trash_restores_and_purges(page: Page) -> None:
    made(page, "back from the trash", "gone for good")
    choose(page, "back from the trash", "Delete")
    choose(page, "gone for good", "Delete")
    page.locator("#trash-toggle").click()
    choose(page, "back from the trash", "Restore")
    choose(page, "gone for good", "Delete for good")
    page.get_by_role("dialog").get_by_role("button", name="Delete for good").click()
    expect(row(page, "gone for good")).to_have_count(0)
    page.locator("#trash-toggle").click()
    expect(row(page, "back from the trash")).to_have_count(1)
    expect(row(page, "gone for good")).to_have_count(0)


def test_several_are_deleted_at_once(page: Page) -> None:
    made(page, "bulk alpha", "bulk beta", "bulk gamma")
    page.locator("#select-toggle").click()
    row(page, "bulk alpha").click()
    row(page, "bulk gamma").click()
    expect(page.locator("#selection-bar")).to_contain_text("2 chosen")
    page.locator("#selection-bar").get_by_role("button", name="Delete").click()
    expect(row(page, "bulk alpha")).to_have_count(0)
    expect(row(page, "bulk gamma")).to_have_count(0)
    expect(row(page, "bulk beta")).to_have_count(1)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(row(page, "bulk alpha")).to_have_count(1)


def test_search_finds_words_in_messages_as_one_types(page: Page) -> None:
    made(
        page,
        "zebras are striped, " + "which nobody can explain to this day, " * 5 + "and live in the savannah",
        "nothing of the kind",
    )
    page.keyboard.press("Control+k")
    expect(page.locator("#conversation-search input")).to_be_focused()
    page.keyboard.type("savan")
    expect(page.locator("#conversation-list .row")).to_have_count(1)
    expect(page.locator("#conversation-list mark").first).to_have_text(re.compile("savan", re.IGNORECASE))
    row(page, "zebras").click()
    expect(last_reply(page)).to_contain_text("You said: zebras are striped")
    page.locator("#conversation-search input").fill('"*:(')
    expect(page.locator("#conversation-list")).to_contain_text("Nothing found")
    page.locator("#conversation-search input").fill("")
    expect(row(page, "nothing of the kind")).to_have_count(1)


def test_a_link_to_a_conversation_opens_it_and_back_returns(page: Page) -> None:
    made(page, "first of two", "second of two")
    row(page, "first of two").click()
    expect(last_reply(page)).to_contain_text("first of two")
    page.go_back()
    expect(last_reply(page)).to_contain_text("second of two")
    page.go_forward()
    expect(last_reply(page)).to_contain_text("first of two")


def test_an_unknown_conversation_says_so_and_offers_a_new_one(server: Server, new_page: NewPage) -> None:
    page = new_page(server, "?c=" + "0" * 32, expected=("404",))
    expect(page.locator(".toast.bad")).to_be_visible()
    expect(page.locator("#chat .empty")).to_be_visible()


def test_on_a_phone_the_list_lies_over_the_chat(server: Server, new_page: NewPage) -> None:
    page = new_page(server, width=390)
    send(page, "from a phone")
    finished(page)
    expect(page.locator("#sidebar")).not_to_be_in_viewport()
    page.locator("#open-sidebar").click()
    expect(page.locator("#sidebar")).to_be_in_viewport()
    row(page, "from a phone").first.click()
    expect(page.locator("#sidebar")).not_to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_conversation_is_saved_as_a_file_and_brought_back(page: Page, tmp_path: Path) -> None:
    made(page, "worth keeping")
    row(page, "worth keeping").hover()
    row(page, "worth keeping").get_by_role("button", name="Actions on").click()
    page.get_by_role("menuitem", name="Export", exact=True).click()
    with page.expect_download() as saved:
        page.get_by_role("menuitem", name="Fader JSON").click()
    file = tmp_path / saved.value.suggested_filename
    saved.value.save_as(file)
    assert "worth keeping" in file.read_text(encoding="utf-8")
    with page.expect_file_chooser() as chooser:
        page.locator("#transfer").click()
        page.get_by_role("menuitem", name="Import a file").click()
    chooser.value.set_files(file)
    expect(page.get_by_role("dialog", name="What was imported")).to_contain_text("1 skipped")
    page.get_by_role("dialog", name="What was imported").get_by_role("button", name="Close").click()
    expect(row(page, "worth keeping")).to_have_count(1)
