"""A conversation of a thousand messages opens at once, streams fluently, and shows its beginning when asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from app.conversation import Conversation, Message, Role, new_id
from storage import open_store
from tests.browser.conftest import NewPage, Server, serving
from tests.browser.test_chat import last_reply, send

MESSAGES = 1_000
OPEN_MS = 1_000
SHOWCASE = (Path(__file__).parent / "showcase.md").read_text(encoding="utf-8")


def fill(home: Path) -> str:
    """A long conversation with rich replies, straight into the store; returns its id."""
    store = open_store(home)
    conversation = Conversation(title="A thousand messages")
    store.create_conversation(conversation)
    parent: str | None = None
    for n in range(MESSAGES):
        role = Role.ASSISTANT if n % 2 else Role.USER
        text = f"Reply {n}\n\n{SHOWCASE}" if n % 2 else f"Question {n}"
        message = Message(new_id(), conversation.id, parent, role, text)
        store.add_message(message)
        parent = message.id
    store.close()
    return conversation.id


@pytest.fixture(scope="module")
def long_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    home = tmp_path_factory.mktemp("long-home")
    conversation = fill(home)
    with serving(Server(home)) as running:
        yield running, conversation


def test_it_opens_and_shows_its_beginning_on_demand(long_server: tuple[Server, str], new_page: NewPage) -> None:
    server, conversation = long_server
    page = new_page(server, f"?c={conversation}")
    expect(last_reply(page)).to_contain_text("Reply 999")
    expect(page.locator("#chat .message")).to_have_count(100)
    page.locator("#show-earlier").click()
    expect(page.locator("#chat .message")).to_have_count(200)
    expect(page.locator("#chat .message").first).to_contain_text("Question 800")


def test_a_message_is_sent_and_streams(long_server: tuple[Server, str], new_page: NewPage) -> None:
    server, conversation = long_server
    page = new_page(server, f"?c={conversation}")
    send(page, "slow after a thousand")
    expect(last_reply(page)).to_contain_text("You said: slow after a thousand")
    page.locator("#stop").click()
    expect(page.locator(".message.live")).to_have_count(0)


@pytest.mark.full
def test_it_opens_in_under_a_second(long_server: tuple[Server, str], new_page: NewPage) -> None:
    """On a machine with nothing else to do: from the click to the last message."""
    server, _ = long_server
    page = new_page(server)
    expect(page.locator("#conversation-list .row")).to_have_count(1)
    took = page.evaluate(
        """async () => {
          const started = performance.now();
          document.querySelector("#conversation-list .row > a").click();
          while (!document.querySelector("#chat .message.assistant")) await new Promise((done) => setTimeout(done, 5));
          return performance.now() - started;
        }"""
    )
    assert took < OPEN_MS
