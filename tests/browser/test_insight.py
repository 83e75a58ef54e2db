"""The token view and the playground, as a user sees them, over a tiny real model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import ROOT, SERVER_GONE, NewPage, Server, serving

OPTION = ".tokens [role=option]"


def insight_server(home: Path) -> Server:
    """The model's folder lies beside the data, so that a restart finds the same model."""
    return Server(home, module="tests.browser.serve_insight", environment={"TINY_MODEL": str(home)})


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(insight_server(tmp_path_factory.mktemp("insight-home"))) as running:
        yield running


def open_tokens(page: Page, talk: int) -> Locator:
    page.locator("#conversation-list .row", has_text=f"talk {talk}").first.click()
    reply = page.locator("#chat .message.assistant").last
    expect(reply.locator(".reply-stats")).to_contain_text("24 tokens")
    reply.locator("[data-action=tokens]").click()
    view = page.locator("#token-view")
    expect(view.locator(OPTION)).to_have_count(24)
    return view


def test_every_token_is_coloured_and_tells_its_alternatives(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    view = open_tokens(page, 0)
    tokens = view.locator(OPTION)
    expect(tokens.first).to_have_class(re.compile(r"\bs\d\b"))
    by_probability = [tokens.nth(i).get_attribute("class") for i in range(24)]
    view.get_by_label("Colour by").select_option("Entropy")
    assert [tokens.nth(i).get_attribute("class") for i in range(24)] != by_probability
    expect(view.locator(".legend")).to_contain_text("<0.1")
    expect(view.locator(".plot path.probability")).to_have_attribute("d", re.compile("^M0.5 "))
    tokens.nth(5).hover()
    card = page.locator("#token-card")
    expect(card).to_contain_text("token 6")
    expect(card.locator("tbody tr")).to_have_count(20)
    expect(card.locator("tr.chosen")).to_have_count(1)
    expect(card.locator("tbody tr").nth(0)).to_contain_text("%")
    expect(card.locator("tr.gone").last).to_contain_text(re.compile("top_k|min_p"))
    expect(card.locator(".stages")).to_contain_text(re.compile(r"400 → .*top_k 8"))
    page.mouse.move(2, 2)
    expect(card).to_have_count(0)


def test_the_token_view_is_used_by_keyboard_alone(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    view = open_tokens(page, 0)
    tokens = view.locator(OPTION)
    tokens.first.focus()
    card = page.locator("#token-card")
    expect(card).to_contain_text("token 1 ")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(tokens.nth(3)).to_be_focused()
    expect(card).to_contain_text("token 4 ")
    page.keyboard.press("Enter")
    expect(card.get_by_role("button").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(card.get_by_role("button").nth(1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(tokens.nth(3)).to_be_focused()
    page.keyboard.press("End")
    expect(tokens.last).to_be_focused()


def test_an_alternative_and_a_typed_word_make_siblings(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    view = open_tokens(page, 1)
    view.locator(OPTION).nth(2).click()
    card = page.locator("#token-card")
    card.locator("tbody button").first.click()
    reply = page.locator("#chat .message.assistant").last
    expect(reply.locator(".pager")).to_contain_text("2/2")
    expect(page.locator(".message.live")).to_have_count(0)
    reply.locator("[data-action=tokens]").click()
    expect(page.locator("#token-view .untraced")).to_have_count(3)
    page.locator("#token-view").locator(OPTION).nth(4).click()
    card.get_by_label("Type another word here").fill(" Paris")
    card.get_by_role("button", name="Go", exact=True).click()
    expect(reply.locator(".pager")).to_contain_text("3/3")
    expect(reply).to_contain_text("Paris")
    expect(page.locator(".message.live")).to_have_count(0)
    reply.locator("[data-action=tokens]").click()
    page.locator("#token-view").locator(OPTION).nth(9).click()
    card.get_by_role("button", name="Continue from here").click()
    expect(reply.locator(".pager")).to_contain_text("4/4")


def test_the_report_says_plainly_what_never_mattered(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    view = open_tokens(page, 0)
    view.get_by_role("button", name="What mattered").click()
    expect(view.locator('tr[data-name="top_p"]')).to_contain_text("never mattered")
    expect(view.locator('tr[data-name="top_k"]')).to_contain_text("Acted at 24 of 24 tokens")
    expect(view.locator('tr[data-name="max_new_tokens"]')).to_contain_text("It ended the reply")


def test_a_moved_slider_shows_the_first_change_and_running_it_for_real_agrees(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    view = open_tokens(page, 2)
    view.get_by_role("button", name="What if").click()
    view.get_by_label("top_k").fill("1")
    verdict = view.locator(".verdict")
    expect(verdict).to_contain_text("instead of")
    told = re.search(r"At token (\d+) the same draw takes “(.*?)” instead", verdict.inner_text())
    assert told
    at = int(told[1])
    expect(view.locator(".tokens .parts")).to_have_count(1)
    expect(view.locator(OPTION).nth(at - 1)).to_have_class(re.compile("parts"))
    view.locator(OPTION).nth(at - 1).hover()
    expect(page.locator("#token-card tr.struck")).to_have_count(19)
    page.mouse.move(2, 2)
    view.get_by_role("button", name="Run it for real").click()
    reply = page.locator("#chat .message.assistant").last
    expect(reply.locator(".pager")).to_contain_text("2/2")
    expect(page.locator(".message.live")).to_have_count(0)
    reply.locator("[data-action=tokens]").click()
    page.locator("#token-view").locator(OPTION).nth(at - 1).hover()
    assert page.locator("#token-card strong").inner_text().replace("↵", "↵") == told[2]


def test_after_a_restart_of_the_server_a_reply_is_replayed_identically(tmp_path: Path, new_page: NewPage) -> None:
    server = insight_server(tmp_path)
    with serving(server):
        page = new_page(server, expected=SERVER_GONE)
        expect(page.locator("#conversation-list .row")).not_to_have_count(0)
        server.stop(kill=True)
        server.start()
        page.reload()
        page.wait_for_selector("body.fader-ready")
        view = open_tokens(page, 3)
        view.get_by_role("button", name="Replay", exact=True).click()
        view.get_by_role("button", name="Replay this reply").click()
        expect(view.locator(".verdict")).to_have_text("Identical: all 24 tokens are the same.")


def test_the_tokenizer_goes_both_ways_and_a_text_is_scored(new_page: NewPage, real: Server) -> None:
    page = new_page(real, expected=("400 (Bad Request)",))
    page.locator("#open-playground").click()
    dialog = page.get_by_role("dialog", name="Playground")
    dialog.get_by_label("Text", exact=True).fill("The capital of France")
    expect(dialog.locator(".prompt-tokens")).to_have_text("The capital of France")
    ids = dialog.get_by_label("Token ids")
    expect(ids).to_have_value(re.compile(r"^\d+( \d+)+$"))
    ids.fill(ids.input_value().rpartition(" ")[0])
    expect(dialog.get_by_label("Text", exact=True)).to_have_value("The capital of")
    ids.fill("999999")
    expect(dialog.get_by_role("status")).to_contain_text("There is no token 999999")
    dialog.get_by_role("button", name="Perplexity").click()
    dialog.get_by_label("Text to score").fill("The capital of France is Paris.")
    dialog.get_by_role("button", name="Score").click()
    expect(dialog.get_by_role("status")).to_contain_text(re.compile(r"Perplexity \d"))
    dialog.locator(OPTION).nth(2).hover()
    expect(page.locator("#token-card")).to_contain_text("rank")
    dialog.get_by_role("button", name="Watermark").click()
    dialog.get_by_label("Text to look at").fill("The capital of France is Paris. " * 9)
    dialog.get_by_role("button", name="Look for it").click()
    expect(dialog.get_by_role("status")).to_contain_text("z =")


def long_view(view: dict[str, Any], times: int) -> dict[str, Any]:
    """The same reply as if it were that many times as long."""
    longer = dict(view)
    for name in ("ids", "texts", "raw", "processed", "entropy", "rank", "draws", "left"):
        longer[name] = view[name] * times
    longer["alternatives"] = {name: values * times for name, values in view["alternatives"].items()}
    return longer


def test_two_thousand_tokens_are_fluent(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    asked: list[str] = []

    def lengthen(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json=long_view(route.fetch().json(), 84))

    page.route(re.compile(r"/api/runs/\w+/tokens$"), lengthen)
    page.locator("#conversation-list .row", has_text="talk 4").first.click()
    page.locator("#chat .message.assistant [data-action=tokens]").last.click()
    tokens = page.locator("#token-view").locator(OPTION)
    expect(tokens).to_have_count(2016)
    worst = page.evaluate(
        """async () => {
          const spans = [...document.querySelectorAll('#token-view .tokens [role=option]')], times = [];
          for (let i = 0; i < 200; i++) {
            const started = performance.now();
            spans[i * 10].dispatchEvent(new PointerEvent('pointerover', {bubbles: true, pointerType: 'mouse'}));
            document.querySelector('#token-card').getBoundingClientRect();
            times.push(performance.now() - started);
          }
          const select = document.querySelector('#token-view select'), started = performance.now();
          select.value = 'rank';
          select.dispatchEvent(new Event('change'));
          document.querySelector('#token-view').getBoundingClientRect();
          return {hover: times.sort((a, b) => a - b)[100], colour: performance.now() - started};
        }"""
    )
    assert worst["hover"] < 50, worst
    assert worst["colour"] < 500, worst
    assert len(asked) == 1


def test_the_layers_guesses_are_shown_and_a_reply_without_them_says_what_to_set(
    new_page: NewPage, real: Server
) -> None:
    page = new_page(real, expected=("404 (Not Found)",))
    view = open_tokens(page, 6)
    view.get_by_role("button", name="Inside").click()
    expect(view.locator(".guesses tr")).to_have_count(3)
    expect(view.locator(".guesses tr").last).to_contain_text("layer 2")
    before = view.locator(".guesses").inner_text()
    view.get_by_label("Token", exact=True).fill("9")
    view.get_by_label("Token", exact=True).press("Tab")
    expect(view.locator(".guesses")).not_to_have_text(before, use_inner_text=True)
    with page.expect_download() as download:
        view.get_by_role("link", name="logits as a table").click()
    assert download.value.path().read_text().startswith("position,rank,token id,token,logits")
    view = open_tokens(page, 0)
    view.get_by_role("button", name="Inside").click()
    expect(view.locator(".panel")).to_contain_text("Set output_attentions")


@pytest.mark.full
def test_a_sampled_reply_of_the_built_in_model_after_a_restart(tmp_path: Path, new_page: NewPage) -> None:
    server = Server(tmp_path, module="app", arguments=("run", "--no-browser"))
    with serving(server):
        page = new_page(server, expected=SERVER_GONE)
        expect(page.locator("#model-status")).to_have_attribute("data-state", "ready", timeout=600_000)
        page.locator("#prompt textarea").fill("Name three colours in one short sentence.")
        page.keyboard.press("Enter")
        expect(page.locator("#reply-stats")).to_contain_text("seed", timeout=180_000)
        run_id = page.locator("#reply-stats").get_attribute("data-run")
        server.stop(kill=True)
        server.start()
        page.reload()
        page.wait_for_selector("body.fader-ready")
        expect(page.locator("#model-status")).to_have_attribute("data-state", "ready", timeout=180_000)
        page.locator("#chat .message.assistant [data-action=tokens]").last.click()
        view = page.locator("#token-view")
        view.locator(OPTION).nth(1).hover()
        expect(page.locator("#token-card tbody tr")).to_have_count(20)
        page.mouse.move(5, 5)  # the card of a short reply's token may lie over the buttons
        expect(page.locator("#token-card")).to_have_count(0)
        view.get_by_role("button", name="What mattered").click()
        expect(view.locator('tr[data-name="top_p"]')).to_contain_text("Acted at")
        view.get_by_role("button", name="What if").click()
        view.get_by_label("temperature").fill("0")
        expect(view.locator(".verdict")).to_contain_text(re.compile("instead of|Nothing changes"))
        view.get_by_role("button", name="Replay", exact=True).click()
        view.get_by_role("button", name="Replay this reply").click()
        expect(view.locator(".verdict")).to_contain_text("Identical", timeout=180_000)
        view.locator(OPTION).nth(2).click()
        page.locator("#token-card tbody button").first.click()
        expect(page.locator("#chat .message.assistant .pager")).to_contain_text("2/2")
    told = subprocess.run(
        [sys.executable, "-m", "app", "replay", str(run_id), "--json"],
        cwd=ROOT,
        env={**os.environ, "FADER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout)["identical"], told.stdout
