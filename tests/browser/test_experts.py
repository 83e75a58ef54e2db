"""The experts of a reply in the token view, over a tiny mixture of experts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPage, Server, serving
from tests.browser.test_insight import OPTION, insight_server, open_tokens, real

__all__ = ["real"]


@pytest.fixture(scope="module")
def ernie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = insight_server(tmp_path_factory.mktemp("experts-home"))
    server.environment["TINY_FAMILY"] = "ernie"
    with serving(server) as running:
        yield running


def chips(page: Page) -> list[str]:
    return page.locator(".way td").all_inner_texts()


def test_a_reply_is_shown_on_the_map_and_token_by_token(new_page: NewPage, ernie: Server) -> None:
    page = new_page(ernie)
    view = open_tokens(page, 0)
    view.get_by_role("button", name="Experts").click()
    expect(view.locator(".experts")).to_contain_text("Each token goes to 2 of 8 experts in each of 2 layers")
    expect(view.locator(".way td")).to_have_count(4)
    expect(view.locator(".way th")).to_have_text(["layer 2", "layer 3"])
    board = view.locator("canvas")
    board.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    told = re.compile(r"Layer 3, expert 7: (\d+) of 24 tokens")
    expect(view.locator(".map-foot p")).to_have_text(told)
    found = told.search(view.locator(".map-foot p").inner_text())
    assert found
    page.keyboard.press("Enter")
    expect(view.locator(".tokens .marked")).to_have_count(int(found[1]))
    before = chips(page)
    for place in range(1, 24):  # a random model goes in circles: look for a token with another way
        view.locator(OPTION).nth(place).click()
        expect(view.get_by_label("Token", exact=True)).to_have_value(str(place + 1))
        expect(view.locator(".way")).to_have_attribute("data-token", str(place))
        if chips(page) != before:
            break
    else:
        pytest.fail("every token went the same way")
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        view.get_by_role("link", name="as a table (CSV)").click()
    assert download.value.path().read_text().startswith("position,token id,token,layer from 0,choice,expert,weight")
    view.get_by_role("button", name="Experts").click()
    expect(view.locator(".tokens .marked")).to_have_count(0)


def test_a_dense_model_has_a_plain_sentence(new_page: NewPage, real: Server) -> None:
    view = open_tokens(new_page(real), 0)
    view.get_by_role("button", name="Experts").click()
    expect(view.locator(".panel")).to_have_text(re.compile("^This model is dense"))
