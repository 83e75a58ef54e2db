"""The parameters panel as a person uses it: set, unset, explained before sending, found, steered, kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from app.parameters.table import TABLE
from tests.browser.conftest import NewPage, Server, serving

MODULE = "tests.browser.serve_parameters"


@pytest.fixture(scope="module")
def parameter_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(Server(tmp_path_factory.mktemp("parameters"), MODULE)) as running:
        yield running


@pytest.fixture
def page(new_page: NewPage, parameter_server: Server) -> Page:
    return ready(new_page(parameter_server, width=1440))


def ready(page: Page) -> Page:
    page.wait_for_selector("body.parameters-ready")
    expect(page.locator("#row-top_k")).to_have_attribute("data-mark", re.compile("."))
    return page


def number(page: Page, name: str) -> Locator:
    return page.locator(f"#param-{name} input[type=number]")


def note(page: Page, name: str) -> Locator:
    return page.locator(f"#note-{name}")


def mark(page: Page, name: str) -> Locator:
    return page.locator(f"#row-{name} .parameter-mark")


def switch(page: Page, name: str) -> Locator:
    return page.locator(f"#set-{name} input")


def open_group(page: Page, name: str) -> None:
    header = page.locator(f"#group-{name} > .label-wrap")
    if "open" not in (header.get_attribute("class") or ""):
        header.click()


def send(page: Page, text: str) -> None:
    page.locator("#prompt textarea").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator("#reply-stats")).to_be_visible()


def test_temperature_zero_is_explained_as_greedy_before_anything_is_sent(page: Page) -> None:
    number(page, "temperature").fill("0")
    expect(switch(page, "temperature")).to_be_checked()
    expect(note(page, "temperature")).to_contain_text("0 means greedy")
    expect(page.locator("#effective")).to_contain_text("Greedy")
    expect(page.locator("#row-top_p")).to_have_class(re.compile("unavailable"))
    expect(note(page, "top_k")).to_contain_text("greedy decoding takes the likeliest token")


def test_top_k_shows_what_it_inherits_while_unset_and_its_own_value_while_set(page: Page) -> None:
    expect(number(page, "top_k")).to_have_value("50")
    expect(mark(page, "top_k")).to_have_text("library")
    expect(note(page, "top_k")).to_contain_text("Inherited from the library: transformers uses 50")
    switch(page, "top_k").check()
    expect(mark(page, "top_k")).to_have_text("set")
    number(page, "top_k").fill("7")
    expect(page.locator("#effective")).to_contain_text(re.compile(r"top_k\s*7"))
    switch(page, "top_k").uncheck()
    expect(number(page, "top_k")).to_have_value("50")
    expect(mark(page, "top_k")).to_have_text("library")


def test_four_beams_say_that_streaming_is_off_and_why(page: Page) -> None:
    open_group(page, "strategy")
    number(page, "num_beams").fill("4")
    expect(page.locator("#effective")).to_contain_text(
        "Streaming is off: beam search (num_beams 4) compares whole replies"
    )
    expect(page.locator("#effective")).to_contain_text("4 beams")
    expect(page.locator("#row-early_stopping")).not_to_have_class(re.compile("unavailable"))


def test_a_shipped_preset_reaches_controls_in_closed_groups_too(page: Page) -> None:
    page.locator("#preset select").select_option("Beam search")
    expect(page.locator("#group-strategy > .label-wrap > span").first).to_have_attribute("data-set", re.compile("set"))
    open_group(page, "strategy")
    expect(switch(page, "num_beams")).to_be_checked()
    expect(number(page, "num_beams")).not_to_have_value("1")


def test_a_preset_survives_a_restart(new_page: NewPage, tmp_path: Path) -> None:
    with serving(Server(tmp_path, MODULE)) as server:
        page = ready(new_page(server, width=1440))
        number(page, "temperature").fill("1.3")
        number(page, "top_k").fill("33")
        expect(page.locator("#set-only")).to_have_text("Set 2")
        page.locator("#preset-menu").click()
        page.get_by_role("menuitem", name="Save as…").click()
        page.get_by_label("Name", exact=True).fill("My own")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator("#preset select")).to_have_value("My own")
        page.close()
        server.stop(kill=True)
        server.start()
        page = ready(new_page(server, width=1440))
        expect(switch(page, "top_k")).not_to_be_checked()
        page.locator("#preset select").select_option("My own")
        expect(number(page, "temperature")).to_have_value("1.3")
        expect(number(page, "top_k")).to_have_value("33")
        expect(switch(page, "top_k")).to_be_checked()


def test_what_is_set_is_sent_and_kept_with_its_conversation(new_page: NewPage, parameter_server: Server) -> None:
    page = ready(new_page(parameter_server, width=1440))
    number(page, "top_k").fill("12")
    expect(mark(page, "top_k")).to_have_text("set")
    send(page, "first")
    page.locator("#param-stop_strings textarea").fill("END")
    number(page, "top_k").fill("13")
    page.locator("#new-chat").click()  # at once: the change still belongs to the conversation it was made in
    expect(switch(page, "top_k")).not_to_be_checked()
    expect(number(page, "top_k")).to_have_value("50")
    send(page, "second")
    page.locator("#conversation-list .row", has_text="first").locator("a").click()
    expect(number(page, "top_k")).to_have_value("13")
    expect(page.locator("#param-stop_strings textarea")).to_have_value("END")
    again = ready(new_page(parameter_server, page.url.removeprefix(parameter_server.address), width=1440))
    expect(number(again, "top_k")).to_have_value("13")


def test_settings_of_a_new_chat_survive_a_reload_until_they_are_sent_or_begun_afresh(
    new_page: NewPage, parameter_server: Server
) -> None:
    page = ready(new_page(parameter_server, width=1440))
    number(page, "top_k").fill("12")
    page.locator("#system-prompt textarea").fill("Be brief.")
    page.locator("#prompt textarea").fill("not sent")
    expect(mark(page, "top_k")).to_have_text("set")
    page.reload()
    ready(page)
    expect(number(page, "top_k")).to_have_value("12")
    expect(switch(page, "top_k")).to_be_checked()
    expect(page.locator("#system-prompt textarea")).to_have_value("Be brief.")
    expect(page.locator("#prompt textarea")).to_have_value("not sent")
    send(page, "sent")
    page.locator("#system-prompt textarea").fill("Be long.")
    page.locator("#new-chat").click()
    expect(switch(page, "top_k")).not_to_be_checked()
    expect(page.locator("#system-prompt textarea")).to_have_value("")
    number(page, "min_p").fill("0.3")
    expect(mark(page, "min_p")).to_have_text("set")
    page.locator("#conversation-list .row", has_text="sent").locator("a").click()
    expect(number(page, "top_k")).to_have_value("12")
    expect(page.locator("#system-prompt textarea")).to_have_value("Be long.")
    page.locator("#new-chat").click()
    expect(number(page, "min_p")).to_have_value("0.3")
    page.locator("#new-chat").click()
    expect(switch(page, "min_p")).not_to_be_checked()
    page.reload()
    ready(page)
    expect(switch(page, "min_p")).not_to_be_checked()


def test_what_a_preset_gave_is_marked_so_also_after_a_reload_and_beside_the_reply(
    new_page: NewPage, parameter_server: Server
) -> None:
    page = ready(new_page(parameter_server, width=1440))
    page.locator("#preset select").select_option("Creative")
    expect(mark(page, "temperature")).to_have_text("preset")
    number(page, "top_k").fill("12")
    expect(mark(page, "top_k")).to_have_text("set")
    expect(mark(page, "temperature")).to_have_text("preset")
    expect(page.locator("#preset option:checked")).to_have_text("Creative, changed")
    page.reload()
    ready(page)
    expect(mark(page, "temperature")).to_have_text("preset")
    send(page, "hello")
    page.reload()
    ready(page)
    expect(mark(page, "temperature")).to_have_text("preset")
    expect(mark(page, "top_k")).to_have_text("set")
    expect(page.locator("#preset option:checked")).to_have_text("Creative, changed")
    number(page, "temperature").fill("0.4")
    expect(mark(page, "temperature")).to_have_text("set")
    page.locator("#undo-parameters").click()
    expect(mark(page, "temperature")).to_have_text("preset")
    page.locator("#model-defaults").click()
    expect(mark(page, "temperature")).not_to_have_text("preset")


def test_a_wrong_value_is_refused_beside_its_control_but_one_beyond_the_sliders_end_is_not(page: Page) -> None:
    number(page, "temperature").fill("9")
    expect(note(page, "temperature")).to_contain_text(
        re.compile(r"9(\.0)? is out of range; it takes a number from 0 to 5")
    )
    expect(mark(page, "temperature")).to_have_text("refused")
    page.locator("#prompt textarea").fill("hello")
    page.keyboard.press("Enter")
    expect(page.locator("#composer-note")).to_contain_text(re.compile(r"temperature: 9(\.0)? is out of range"))
    expect(page.locator("#prompt textarea")).to_have_value("hello")
    number(page, "top_k").fill("240")
    number(page, "top_k").blur()
    expect(page.locator("#effective")).to_contain_text(re.compile(r"top_k\s*240"))
    expect(number(page, "top_k")).to_have_value("240")


def test_search_finds_by_help_in_closed_groups_and_a_filter_shows_only_what_is_set(page: Page) -> None:
    box = page.locator("#parameter-search input")
    box.fill("draft")
    expect(page.locator("#param-num_assistant_tokens")).to_be_visible()
    expect(page.locator("#param-temperature")).to_be_hidden()
    box.fill("no such thing")
    expect(page.locator(".parameter:visible")).to_have_count(0)
    box.fill("")
    expect(page.locator("#param-temperature")).to_be_visible()
    expect(page.locator("#param-num_assistant_tokens")).to_be_hidden()
    number(page, "min_p").fill("0.1")
    expect(page.locator("#set-only")).to_have_text("Set 1")
    page.locator("#set-only").click()
    expect(page.locator(".parameter:visible")).to_have_count(1)
    page.locator("#set-only").click()
    expect(page.locator("#param-top_k")).to_be_visible()


def test_neutralize_models_defaults_and_undo(page: Page) -> None:
    number(page, "min_p").fill("0.1")
    expect(page.locator("#set-only")).to_have_text("Set 1")
    page.locator("#neutralize").click()
    expect(page.locator("#effective")).to_contain_text("Greedy")
    expect(number(page, "min_p")).to_have_value("0")
    page.locator("#undo-parameters").click()
    expect(number(page, "min_p")).to_have_value("0.1")
    expect(switch(page, "min_p")).to_be_checked()
    page.locator("#model-defaults").click()
    expect(page.locator("#set-only")).to_have_text("Set 0")
    page.locator("#undo-parameters").click()
    expect(page.locator("#set-only")).to_have_text("Set 1")


def test_a_preset_file_loads_what_is_good_and_names_the_rest(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"temperature": 1.5, "top_p": 7, "sparkle": 1}))
    page.locator("#preset-menu").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("menuitem", name="Import…").click()
    chooser.value.set_files(file)
    report = page.get_by_role("dialog", name="What the file held")
    expect(report).to_contain_text("1 value loaded, 2 left out")
    expect(report).to_contain_text("top_p")
    expect(report).to_contain_text("sparkle")
    report.get_by_role("button", name="Close").click()
    expect(number(page, "temperature")).to_have_value("1.5")
    page.locator("#preset-menu").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export…").click()
    assert json.loads(download.value.path().read_text())["parameters"] == {"temperature": 1.5}


def test_tokens_are_shown_as_they_are_cut_can_be_taken_as_ids_and_biased_in_rows(page: Page) -> None:
    field = page.locator("#param-bad_words_ids textarea")
    field.fill("ab")
    shown = page.locator("#row-bad_words_ids .parameter-tokens")
    expect(shown).to_contain_text("as typed")
    expect(shown).to_contain_text("after a space")
    expect(shown).to_contain_text("␣")
    shown.get_by_role("button", name=re.compile("^after a space")).click()
    expect(field).to_have_value(re.compile(r"^\[\d+(, ?\d+)*\]$"))
    expect(shown).to_contain_text("␣")
    expect(page.locator("#row-bad_words_ids")).to_have_class(re.compile("is-set"))
    rows = page.locator("#row-sequence_bias")
    rows.get_by_role("button", name="Add a row").click()
    rows.get_by_label("Text, or token ids").fill("sea")
    rows.get_by_label("Bias", exact=True).fill("3.5")
    expect(page.locator("#effective")).to_contain_text(re.compile(r"sequence_bias\s*sea 3.5"))
    rows.get_by_role("button", name="Remove this row").click()
    expect(page.locator("#effective")).not_to_contain_text("sea")


def test_a_form_shows_the_fields_of_the_chosen_kind(page: Page) -> None:
    open_group(page, "own")
    switch(page, "output_format").check()
    expect(page.get_by_label("schema (JSON)")).to_be_visible()
    expect(mark(page, "output_format")).to_have_text("refused")
    page.locator("#param-output_format input").click()
    page.get_by_role("option", name="regular expression").click()
    pattern = page.get_by_label("pattern")
    pattern.fill("(a|b")
    expect(note(page, "output_format")).to_contain_text("pattern")
    pattern.fill("(yes|no)")
    expect(mark(page, "output_format")).to_have_text("set")
    expect(page.get_by_label("schema (JSON)")).to_be_hidden()


def test_sliders_switches_and_choices_become_set_when_touched(page: Page) -> None:
    slider = page.get_by_label("logarithmic slider for epsilon_cutoff")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(number(page, "epsilon_cutoff")).to_have_value("0.00001")
    page.keyboard.press("Home")
    expect(number(page, "epsilon_cutoff")).to_have_value("0")
    page.keyboard.press("End")
    expect(number(page, "epsilon_cutoff")).to_have_value("0.1")
    expect(switch(page, "epsilon_cutoff")).to_be_checked()
    page.locator("#param-renormalize_logits input").check()
    expect(switch(page, "renormalize_logits")).to_be_checked()
    page.locator("#param-top_p input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(switch(page, "top_p")).to_be_checked()
    expect(number(page, "top_p")).to_have_value("0.89")
    open_group(page, "own")
    page.locator("#param-context_policy input").click()
    page.get_by_role("option", name="drop middle").click()
    expect(switch(page, "context_policy")).to_be_checked()


def test_another_model_brings_its_limits_settings_and_default_preset(new_page: NewPage, tmp_path: Path) -> None:
    with serving(Server(tmp_path, MODULE)) as server:
        page = ready(new_page(server, width=1440))
        expect(page.locator("#param-max_new_tokens input[type=range]")).to_have_attribute("max", "2048")
        page.get_by_role("tab", name="Model").click()
        page.locator("#model-name input").fill("small")
        page.locator("#model-name input").press("Enter")
        page.locator("#model-load").click()
        expect(page.locator("#model-status")).to_contain_text("Small")
        page.get_by_role("tab", name="Settings").click()
        expect(page.locator("#param-max_new_tokens input[type=range]")).to_have_attribute("max", "256")
        expect(number(page, "top_k")).to_have_value("20")
        expect(mark(page, "top_k")).to_have_text("model")
        expect(mark(page, "eos_token_id")).to_have_count(0)
        open_group(page, "special_tokens")
        expect(page.locator("#row-eos_token_id")).to_contain_text("<|im_end|>")
        page.locator("#preset select").select_option("Deterministic")
        expect(page.locator("#effective")).to_contain_text("Greedy")
        page.locator("#preset-menu").click()
        page.get_by_role("menuitem", name="Use for new chats").click()
        expect(page.locator("#preset option:checked")).to_have_text("Deterministic (default)")
        page.locator("#model-defaults").click()
        expect(page.locator("#effective")).to_contain_text("Sampling")
        page.locator("#new-chat").click()
        expect(page.locator("#effective")).to_contain_text("Greedy")


def test_every_parameter_has_its_control_and_a_reason_where_it_cannot_act(page: Page) -> None:
    page.locator("#parameter-search input").fill("e")
    expect(page.locator(".parameter[data-dressed]")).to_have_count(len(TABLE))
    for row in TABLE:
        expect(page.locator(f"#param-{row.name}")).to_have_count(1)
    expect(page.locator("#param-use_mtp input")).to_have_attribute("aria-disabled", "true")
    expect(note(page, "use_mtp")).to_contain_text("this model has no multi-token-prediction layers")
    assert page.locator("#param-use_mtp").evaluate("node => node.inert")


def test_on_a_phone_the_panel_fits_and_nothing_overflows(new_page: NewPage, parameter_server: Server) -> None:
    page = new_page(parameter_server, width=390)
    page.wait_for_selector("body.parameters-ready")
    page.locator("#toggle-panel").click()
    expect(page.locator("#param-temperature")).to_be_in_viewport()
    assert page.locator("#panel .tabitem:visible").evaluate("node => node.scrollWidth <= node.clientWidth")
