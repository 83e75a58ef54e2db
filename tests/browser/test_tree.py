"""Editing, regenerating, continuing, branching and deleting: nothing is destroyed, and every version can be reached."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.test_chat import finished, last_reply, send


def user(page: Page, n: int = 0) -> Locator:
    return page.locator("#chat .message.user").nth(n)


def act(message: Locator, name: str) -> None:
    message.hover()
    message.get_by_role("button", name=name, exact=True).click()


def test_an_edited_question_is_a_sibling_and_both_can_be_paged(page: Page) -> None:
    send(page, "first wording")
    finished(page)
    act(user(page), "Edit")
    page.get_by_label("Edit the message").fill("second wording")
    page.get_by_label("Edit the message").press("Enter")
    expect(user(page)).to_contain_text("second wording")
    expect(last_reply(page)).to_contain_text("You said: second wording")
    expect(user(page).locator(".pager")).to_contain_text("2/2")
    act(user(page), "Previous version")
    expect(last_reply(page)).to_contain_text("You said: first wording")
    page.reload()
    expect(last_reply(page)).to_contain_text("You said: first wording")
    expect(user(page).locator(".pager")).to_contain_text("1/2")


def test_escape_leaves_the_question_as_it_was(page: Page) -> None:
    send(page, "unchanged")
    finished(page)
    act(user(page), "Edit")
    page.get_by_label("Edit the message").fill("changed")
    page.keyboard.press("Escape")
    expect(user(page).locator(".bubble")).to_have_text("unchanged")
    expect(user(page).locator(".pager")).to_have_count(0)


def test_regenerate_makes_versions_and_arrow_keys_page_them(page: Page) -> None:
    send(page, "again please")
    finished(page)
    page.locator("#regenerate").click()
    expect(last_reply(page).locator(".pager")).to_contain_text("2/2")
    finished(page)
    page.locator("#prompt textarea").focus()
    page.keyboard.press("ArrowLeft")
    expect(last_reply(page).locator(".pager")).to_contain_text("1/2")
    page.keyboard.press("ArrowRight")
    expect(last_reply(page).locator(".pager")).to_contain_text("2/2")
    page.locator("#prompt textarea").fill("text")
    page.keyboard.press("ArrowLeft")
    expect(last_reply(page).locator(".pager")).to_contain_text("2/2")


def test_continue_begins_with_all_of_the_stopped_reply(page: Page) -> None:
    send(page, "slow to be continued")
    expect(last_reply(page)).to_contain_text("You said")
    page.locator("#stop").click()
    finished(page)
    expect(last_reply(page).locator(".mark")).to_contain_text("Stopped here")
    before = last_reply(page).locator(".md").inner_text()
    page.locator("#continue").click()
    expect(last_reply(page).locator(".pager")).to_contain_text("2/2")
    page.wait_for_function(
        "n => document.querySelector('.message.assistant:last-child .md').innerText.length > n + 50", arg=len(before)
    )
    page.locator("#stop").click()
    finished(page)
    assert last_reply(page).locator(".md").inner_text().startswith(before.rstrip())


def test_branching_copies_the_path_into_a_new_conversation(page: Page) -> None:
    send(page, "root question")
    finished(page)
    send(page, "second question")
    expect(last_reply(page)).to_contain_text("second question")
    finished(page)
    address = page.url
    act(page.locator("#chat .message.assistant").first, "Branch into a new conversation")
    expect(page.locator("#chat .message")).to_have_count(2)
    expect(page).not_to_have_url(address)
    page.go_back()
    expect(page.locator("#chat .message")).to_have_count(4)


def test_a_message_or_a_subtree_is_deleted_and_comes_back(page: Page) -> None:
    send(page, "one")
    finished(page)
    send(page, "two")
    expect(page.locator("#chat .message")).to_have_count(4)
    finished(page)
    act(user(page, 1), "Delete")
    page.get_by_role("menuitem", name="Delete it and all below").click()
    expect(page.locator("#chat .message")).to_have_count(2)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator("#chat .message")).to_have_count(4)
    act(page.locator("#chat .message.assistant").first, "Delete")
    page.get_by_role("menuitem", name="Delete this message only").click()
    expect(page.locator("#chat .message")).to_have_count(3)
    page.locator(".toast").last.get_by_role("button", name="Undo").click()
    expect(page.locator("#chat .message")).to_have_count(4)


def test_copy_gives_the_raw_text(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    send(page, "**bold** `code`")
    finished(page)
    act(last_reply(page), "Copy")
    page.wait_for_function("navigator.clipboard.readText().then(t => t === 'You said: **bold** `code`')")


def test_keys_are_listed_and_a_new_chat_is_a_key_away(page: Page) -> None:
    page.locator("#prompt textarea").press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Search conversations")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    send(page, "to be left")
    finished(page)
    page.keyboard.press("Control+Shift+O")
    expect(page.locator("#chat .message")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/$"))
    expect(page.locator("#prompt textarea")).to_be_focused()


def test_drafts_are_kept_per_conversation(page: Page) -> None:
    send(page, "with a draft")
    finished(page)
    page.locator("#prompt textarea").fill("half a thought")
    page.locator("#new-chat").click()
    expect(page.locator("#prompt textarea")).to_have_value("")
    page.locator("#conversation-list .row", has_text="with a draft").click()
    expect(page.locator("#prompt textarea")).to_have_value("half a thought")
    page.reload()
    expect(page.locator("#prompt textarea")).to_have_value("half a thought")


def test_the_theme_is_switched_and_remembered(page: Page) -> None:
    expect(page.locator("body")).not_to_have_class(re.compile(r"\bdark\b"))
    page.locator("#theme-toggle").click()
    expect(page.locator("body")).to_have_class(re.compile(r"\bdark\b"))
    page.reload()
    expect(page.locator("body")).to_have_class(re.compile(r"\bdark\b"))
