"""The comparison as a user sees it, over a tiny real model."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NewPage, Server, serving
from tests.browser.test_insight import insight_server


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(insight_server(tmp_path_factory.mktemp("compare-home"))) as running:
        yield running


def opened(page: Page, talk: int) -> Locator:
    page.locator("#conversation-list .row", has_text=f"talk {talk}").first.click()
    reply = page.locator("#chat .message.assistant").last
    expect(reply.locator(".reply-stats")).to_contain_text("24 tokens")
    reply.locator("[data-action=tokens]").click()
    page.locator("#token-view").get_by_role("button", name="Compare").click()
    return page.get_by_role("dialog", name="Compare settings")


def run(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Run").click()


def ready(dialog: Locator) -> None:
    expect(dialog.get_by_role("status")).to_contain_text(re.compile("ready: "))


def test_eight_temperatures_stand_side_by_side_marked_and_checked_and_one_is_adopted(
    new_page: NewPage, real: Server
) -> None:
    page = new_page(real)
    dialog = opened(page, 0)
    dialog.get_by_role("button", name="8 temperatures").click()
    expect(dialog.locator(".size")).to_have_text("8 cells")
    run(dialog)
    ready(dialog)
    cells = dialog.locator(".cell")
    expect(cells).to_have_count(8)
    expect(dialog.get_by_role("status")).to_contain_text("192 tokens in")
    expect(cells.first.locator(".figures")).to_contain_text(re.compile(r"24 tokens .* perplexity \d"))
    expect(cells.last.locator(".difference")).to_contain_text(re.compile("parts from the reference at token"))
    expect(cells.last.locator("mark")).not_to_have_count(0)
    expect(cells.first.locator("mark")).to_have_count(0)
    for number in range(8):
        expect(cells.nth(number).locator(".alone")).to_contain_text(re.compile("a single run (gives|parts)"))
    cells.last.get_by_role("button", name="Reference").click()
    expect(cells.last).to_have_class(re.compile("reference"))
    expect(cells.last.locator("mark")).to_have_count(0)
    expect(cells.first.locator("mark")).not_to_have_count(0)
    wanted = cells.nth(5).locator(".text").inner_text().strip()
    cells.nth(5).get_by_role("button", name="Adopt").click()
    expect(dialog).to_have_count(0)
    reply = page.locator("#chat .message.assistant").last
    expect(reply.locator(".pager")).to_contain_text("7/9")
    expect(reply).to_contain_text(wanted[:10])
    page.locator("#toasts").get_by_role("button", name="Discard them").click()
    expect(reply.locator(".pager")).to_contain_text("2/2")
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(reply.locator(".pager")).to_contain_text("7/9")


def test_two_parameters_make_a_table_and_what_goes_by_itself_says_why(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    dialog = opened(page, 1)
    dialog.get_by_label("What varies first").select_option("num_beams")
    dialog.get_by_label("Values first").fill("1, 2")
    dialog.get_by_label("What varies second").select_option("temperature")
    dialog.get_by_label("Values second").fill("0, 1, off")
    run(dialog)
    ready(dialog)
    cells = dialog.locator(".cell")
    expect(cells).to_have_count(6)
    expect(cells.nth(2)).to_contain_text("num_beams 1, temperature off")
    expect(cells.nth(2).locator(".apart")).to_have_count(0)
    expect(cells.nth(3).locator(".apart")).to_contain_text("by itself: beam search")
    tops = [cells.nth(n).bounding_box() for n in range(6)]
    assert len({round(box["y"]) for box in tops if box}) == 2
    assert len({round(box["x"]) for box in tops if box}) == 3
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("#chat .message.assistant .pager").last).to_contain_text("1/7")


def test_presets_are_compared(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    dialog = opened(page, 2)
    dialog.get_by_role("button", name="Presets").click()
    boxes = dialog.get_by_role("checkbox")
    expect(boxes.first).to_be_checked()
    dialog.get_by_label("Creative", exact=True).uncheck()
    expect(dialog.locator(".size")).to_have_text("3 cells")
    run(dialog)
    ready(dialog)
    expect(dialog.locator(".cell strong")).to_have_text(["Deterministic", "Balanced", "Min-p"])


def test_what_can_not_be_compared_is_said_where_it_is_typed(new_page: NewPage, real: Server) -> None:
    page = new_page(real, expected=("400 (Bad Request)",))
    dialog = opened(page, 3)
    values, go = dialog.get_by_label("Values first"), dialog.get_by_role("button", name="Run")
    values.fill("")
    expect(dialog.locator(".size")).to_have_text("Give temperature at least one value.")
    expect(go).to_be_disabled()
    values.fill(", ".join(str(n) for n in range(17)))
    expect(dialog.locator(".size")).to_have_text("17 cells; 16 at most.")
    values.fill("0.5, [1")
    expect(dialog.locator(".size")).to_contain_text("not a list of values")
    values.fill("0.5, 99")
    values.press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text("temperature")
    expect(dialog.locator(".cell")).to_have_count(0)
    values.fill("0.5")
    dialog.get_by_label("What varies second").select_option("temperature")
    expect(dialog.locator(".size")).to_have_text("Vary two different things.")


def test_closing_stops_what_is_still_written_and_keeps_it(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    dialog = opened(page, 4)
    dialog.get_by_label("What varies first").select_option("max_new_tokens")
    dialog.get_by_label("Values first").fill("400, 450, 480")
    run(dialog)
    expect(dialog.locator('.cell[data-state="generating"]')).to_have_count(3)
    expect(dialog.locator(".cell .text").first).not_to_be_empty()
    dialog.get_by_role("button", name="Stop").click()
    ready(dialog)
    expect(dialog.locator(".figures").first).to_contain_text("stopped by you")
    run(dialog)
    expect(dialog.locator('.cell[data-state="generating"]')).to_have_count(3)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("#chat .message.assistant .pager").last).to_contain_text("1/7")
    expect(page.locator(".message.live")).to_have_count(0)


def test_a_narrow_screen_shows_one_cell_below_the_other(new_page: NewPage, real: Server) -> None:
    page = new_page(real)
    dialog = opened(page, 5)
    page.set_viewport_size({"width": 390, "height": 844})
    dialog.get_by_role("button", name="4 seeds").click()
    run(dialog)
    ready(dialog)
    boxes = [dialog.locator(".cell").nth(n).bounding_box() for n in range(4)]
    assert len({round(box["x"]) for box in boxes if box}) == 1
    assert page.evaluate("document.querySelector('#compare').scrollWidth <= innerWidth")
