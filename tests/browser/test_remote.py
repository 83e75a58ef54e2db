"""The page with a model on a server: where text goes, what its controls can't do, and the probabilities that the server gives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import NewPage, Server, serving
from tests.remote.fake_server import FakeServer, Json, piece, say, token
from tests.remote.fake_server import serving as answering

TOKENS = [
    ("The", 0.81, ("A", 0.1)),
    (" capital", 0.93, (" city", 0.02)),
    (" is", 0.97, (":", 0.01)),
    (" Paris", 0.88, (" **", 0.09)),
]


def logged(text: str, probability: float, other: tuple[str, float]) -> Json:
    return piece(text, logprobs={"content": [token(text, probability, other)]})


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[FakeServer]:
    """A vLLM server that thinks, answers, and gives probabilities."""
    with answering() as server:
        server.be_vllm(32768)
        server.answer = say(piece(delta={"reasoning": "A capital."}), *[logged(*entry) for entry in TOKENS])
        yield server


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory, elsewhere: FakeServer) -> Iterator[Server]:
    home: Path = tmp_path_factory.mktemp("remote-home")
    arguments = ("run", "--no-browser", "--model", elsewhere.base)
    with serving(Server(home, module="app", arguments=arguments, environment={**os.environ})) as running:
        yield running


def test_a_model_on_this_machine_is_named_with_its_server(
    new_page: NewPage, remote: Server, elsewhere: FakeServer
) -> None:
    status = new_page(remote).locator("#model-status")
    expect(status).to_contain_text(f"small · {elsewhere.base.split('/')[2]}")
    expect(status).not_to_have_class("leaves-machine")


def test_that_text_leaves_the_machine_is_always_to_be_seen(new_page: NewPage, remote: Server) -> None:
    def away(route: Route) -> None:
        told = json.loads(route.fetch().text())
        told["remote"] |= {"leaves_machine": True, "host": "gpu.example.org"}
        route.fulfill(json=told)

    page = new_page(remote)
    page.route("**/api/model", away)
    status = page.locator("#model-status")
    expect(status).to_contain_text("small ↗ gpu.example.org")
    expect(status).to_have_class("leaves-machine")
    expect(status).to_have_attribute("title", "What you write is sent to gpu.example.org · 32,768 tokens of context")


def test_a_reply_comes_with_the_servers_probabilities_and_their_limits(new_page: NewPage, remote: Server) -> None:
    page = new_page(remote)
    page.locator("#prompt textarea").fill("Capital of France?")
    page.keyboard.press("Enter")
    reply = page.locator("#chat .message.assistant").last
    expect(reply).to_contain_text("The capital is Paris")
    expect(reply.locator(".thinking, details").first).to_contain_text("Thinking")
    reply.locator("[data-action=tokens]").click()
    view = page.locator("#token-view")
    expect(view.locator("[role=option]")).to_have_text(["The", " capital", " is", " Paris"])
    expect(view).to_contain_text("need a model on this machine")
    expect(view.get_by_role("button", name="Replay")).to_have_count(0)
    view.locator("[role=option]").nth(3).hover()
    card = page.locator("#token-card")
    expect(card).to_contain_text("88.0 %")
    expect(card).to_contain_text("at least")
    expect(card.locator("tbody tr")).to_have_count(2)
    expect(card.get_by_role("button")).to_have_count(0)


def test_controls_say_what_the_server_has_and_what_it_has_not(
    new_page: NewPage, remote: Server, elsewhere: FakeServer
) -> None:
    page = new_page(remote)
    expect(page.locator("#row-typical_p.unavailable")).to_have_count(1)
    expect(page.locator("#row-top_k .parameter-mark")).to_have_text("server")
    expect(page.locator("#row-typical_p .parameter-mark")).to_have_attribute(
        "title", "Not in use: a vLLM server has no such parameter."
    )
    page.locator("#param-top_k input[type=number]").fill("7")
    page.keyboard.press("Tab")
    expect(page.locator("#row-top_k.is-set")).to_have_count(1)
    page.locator("#prompt textarea").fill("With top_k")
    page.keyboard.press("Enter")
    expect(page.locator("#chat .message.assistant").last).to_contain_text("Paris")
    assert elsewhere.asked[-1]["top_k"] == 7
