"""The model panel over real loads of tiny models: choices, verdict, load, what is kept, and the copies on the disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SERVER_GONE, NewPage, Server, serving


@pytest.fixture
def server(tmp_path: Path, shared_cache: Path) -> Iterator[Server]:
    """A cache of the test's own, with the session's kernels."""
    (shared_cache / "native").mkdir(exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "native").symlink_to(shared_cache / "native", target_is_directory=True)
    environment = {"TINY_MODEL": str(tmp_path), "FADER_CACHE": str(tmp_path / "cache")}
    with serving(Server(tmp_path, module="tests.browser.serve_models", environment=environment)) as running:
        yield running


def open_panel(page: Page) -> None:
    page.get_by_role("tab", name="Model").click()
    expect(page.locator("#model-details")).to_contain_text("tiny, loaded")


def unfold(page: Page) -> None:
    page.get_by_role("button", name="How it is loaded").click()
    expect(page.locator("#model-verdict textarea")).to_have_value(re.compile("^Fits: it needs about"))


def choose(page: Page, control: str, option: str) -> None:
    page.locator(f"#load-{control} input").click()
    page.get_by_role("option", name=option).click()


def details(page: Page, term: str) -> str:
    return page.locator("#model-details dt", has_text=term).locator("xpath=following-sibling::dd[1]").inner_text()


def test_choices_change_the_verdict_are_loaded_and_kept_for_the_next_start(new_page: NewPage, server: Server) -> None:
    page = new_page(server, expected=SERVER_GONE)
    open_panel(page)
    unfold(page)
    verdict = page.locator("#model-verdict textarea")
    expect(verdict).to_have_value(re.compile("Reads the copy that was made before"))
    choose(page, "attention", "eager")
    expect(verdict).to_have_value(re.compile(r"\(Attention: auto\); the change takes a new load"))
    choose(page, "scheme", "as they are")
    expect(verdict).to_have_value(re.compile("Reads the folder as it is"))
    expect(page.locator("#load-double_quant input")).to_be_disabled()
    page.locator("#model-load").click()
    expect(page.locator("#model-details")).to_contain_text(re.compile("Precision\\s*none"))
    assert details(page, "Attention") == "eager"
    server.stop(kill=True)
    server.start()
    page.reload()
    page.wait_for_selector("body.fader-ready")
    open_panel(page)
    assert details(page, "Precision") == "none"
    unfold(page)
    expect(page.locator("#load-scheme input")).to_have_value("as they are (not quantized)")
    expect(page.locator("#load-attention input")).to_have_value("eager")
    page.locator("#load-defaults").click()
    expect(page.locator("#load-scheme input")).to_have_value("4-bit (auto)")
    expect(verdict).to_have_value(re.compile(r"In memory it is loaded otherwise \(Weights: as they are"))


def test_a_copy_is_deleted_after_a_question(new_page: NewPage, server: Server) -> None:
    page = new_page(server)
    open_panel(page)
    copies = page.locator("#model-copies")
    expect(copies.locator("li")).to_have_count(1)
    expect(copies.locator("li")).to_contain_text(
        re.compile(r"tiny.*nf4-double-bfloat16 · \d+ MB · .* · in use", re.DOTALL)
    )
    copies.get_by_role("button", name="Delete the copy of tiny").click()
    dialog = page.get_by_role("dialog", name="Delete this copy")
    expect(dialog).to_contain_text(re.compile(r"takes \d+ MB"))
    dialog.get_by_role("button", name="Keep").click()
    expect(dialog).to_have_count(0)
    expect(copies.locator("li")).to_have_count(1)
    copies.get_by_role("button", name="Delete the copy of tiny").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("freed")
    expect(copies).to_contain_text("None yet")
    expect(page.locator("#model-status")).to_have_attribute("data-state", "ready")


def test_a_model_that_can_not_be_loaded_says_why_and_the_previous_one_stays(
    new_page: NewPage, server: Server, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text('{"model_type": "hovercraft"}')
    page = new_page(server)
    open_panel(page)
    name = page.locator("#model-name input")
    name.fill(str(broken))
    name.press("Enter")
    expect(page.locator("#model-verdict textarea")).to_have_value(re.compile("architecture hovercraft"))
    page.locator("#model-load").click()
    expect(page.locator("#model-details .failure")).to_contain_text("which the installed transformers can't run")
    expect(page.locator("#model-details .failure")).to_contain_text("The previous model is still in use")
    expect(page.locator("#model-details")).to_contain_text("tiny, loaded")
