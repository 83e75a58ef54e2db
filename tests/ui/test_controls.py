"""The controls' way from values to JSON and back, and what the page is told about them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat import Chat
from app.conversation import Conversation, Json
from app.errors import BadParameter
from app.parameters.row import Parameter
from app.parameters.table import BY_NAME, TABLE
from app.parameters.validate import validate
from tests.ui.fakes import FACTS
from ui.controls import Panel, build_parameters_panel
from ui.controls_kinds import Fields, build_fields
from ui.controls_text import read_entries, read_rows, write_entries, write_rows
from ui.page import unsent
from ui.parameter_order import groups
from ui.parameter_state import answer, neutralizing, view

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=12)
IDS = st.lists(st.integers(0, 999), min_size=1, max_size=4)
Built = TypeVar("Built")
SAMPLES: dict[str, Json] = {
    "stop_strings": ["END", "\n\n", " a"],
    "bad_words_ids": ["word", [4, 5], " spaced", "[INST]"],
    "suppress_tokens": [3, "40", "</s>"],
    "begin_suppress_tokens": [3],
    "forced_eos_token_id": [2],
    "eos_token_id": [2, "x"],
    "forced_bos_token_id": 7,
    "pad_token_id": "<pad>",
    "bos_token_id": 1,
    "decoder_start_token_id": 0,
    "sequence_bias": [["a = b", 2.5], [[4, 5], -3.0]],
    "exponential_decay_length_penalty": [10, 1.5],
    "cache_config": {"backend": "quanto", "nbits": 4},
    "watermarking_config": {"kind": "synthid", "keys": [5, 6, 7], "ngram_len": 4, "debug_mode": True},
    "compile_config": {"dynamic": True, "options": {"a": 1}},
    "output_format": {"kind": "choices", "choices": ["red", "green"]},
    "negative_prompt": "two\nlines",
    "num_assistant_tokens_schedule": "heuristic",
    "early_stopping": "never",
    "context_policy": "stop",
    "cache_implementation": "static",
    "seed": 5,
}


def in_blocks(build: Callable[[], Built]) -> Built:
    """Build inside a page. In a running event loop: Gradio makes one for each page otherwise, and leaves it open."""

    async def page() -> Built:
        with gr.Blocks():
            return build()

    return asyncio.run(page())


@pytest.fixture
def panel(chat: Chat) -> Panel:
    return in_blocks(lambda: build_parameters_panel(chat))


@cache
def all_fields() -> dict[str, Fields]:
    return in_blocks(lambda: {row.name: build_fields(row, FACTS) for row in TABLE})


def sample(row: Parameter) -> Json:
    if row.name in SAMPLES:
        return SAMPLES[row.name]
    if row.kind == "bool":
        return not row.off
    if row.kind == "choice":
        return row.choices[-1]
    return row.slider(FACTS).high if row.step else (row.minimum or 1)


def browser_value(component: Any, value: Any) -> Any:
    """What arrives when the browser sends back what it was given."""
    sent = component.postprocess(value)
    return component.preprocess(sent)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_value_that_is_shown_comes_back_the_same(row: Parameter) -> None:
    wanted = validate({row.name: sample(row)})[row.name]
    fields = all_fields()[row.name]
    values = [browser_value(c, v) for c, v in zip(fields.components, fields.show(wanted), strict=True)]
    assert validate({row.name: fields.read(values)})[row.name] == wanted


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_control_can_show_that_nothing_is_set(row: Parameter) -> None:
    fields = all_fields()[row.name]
    for component, value in zip(fields.components, fields.show(None), strict=True):
        browser_value(component, value)


@given(st.lists(TEXTS | IDS, max_size=5))
def test_any_phrases_survive_being_written_as_lines(phrases: list[Json]) -> None:
    kept = [phrase for phrase in phrases if not isinstance(phrase, str) or phrase]
    assert read_entries(write_entries(kept, "phrases"), "phrases") == kept


@given(st.lists(TEXTS | st.integers(0, 999), max_size=5))
def test_any_tokens_survive_and_a_text_of_digits_stays_a_text(tokens: list[Json]) -> None:
    assert read_entries(write_entries(tokens, "tokens"), "tokens") == tokens


@given(st.lists(st.tuples(TEXTS | IDS, st.integers(-100, 100).map(float)), max_size=4))
def test_any_bias_rows_survive_being_written_as_lines(rows: list[tuple[Json, float]]) -> None:
    assert read_rows(write_rows(rows)) == [list(row) for row in rows]


def test_a_row_without_a_number_is_refused_by_name() -> None:
    with pytest.raises(BadParameter, match="sequence_bias"):
        validate({"sequence_bias": read_rows("sea")})


def values_of(panel: Panel, chosen: dict[str, Json], conversation: str = "", preset: str = "") -> list[Any]:
    """The inputs as a page would send them with these parameters set."""
    shown = list(panel.shown(Conversation(conversation, parameters=chosen, preset=preset)))[1:]
    return [v["value"] if isinstance(v, dict) and "__type__" in v else v for v in shown]


def test_only_what_is_set_is_requested_in_exact_types(panel: Panel) -> None:
    values = values_of(panel, {"temperature": 2, "top_k": 40, "stop_strings": ["END"]})
    got = panel.requested(values)
    assert got == {"temperature": 2.0, "top_k": 40, "stop_strings": ["END"]}
    assert type(got["temperature"]) is float


def test_everything_can_be_set_at_once_and_comes_back(panel: Panel) -> None:
    wanted = validate({row.name: sample(row) for row in TABLE if row.control != "readonly"})
    assert validate(panel._read(values_of(panel, wanted)).parameters) == wanted


def test_a_wrong_value_is_refused_with_its_name(panel: Panel) -> None:
    with pytest.raises(BadParameter, match="temperature"):
        panel.requested(values_of(panel, {"temperature": 9.0}))


class Event:
    def __init__(self, **data: Json) -> None:
        self._data = data


def explained(panel: Panel, values: list[Any]) -> Any:
    return json.loads(panel._explained(Event(turn=1), *values))  # type: ignore[arg-type]


def test_a_change_is_kept_with_its_conversation_and_a_refused_one_leaves_the_stored_value(
    panel: Panel, chat: Chat
) -> None:
    chat.store.create_conversation(Conversation("c", parameters={"top_k": 5}))
    explained(panel, values_of(panel, {"top_k": 6, "min_p": 0.1}, "c"))
    assert chat.store.conversation("c").parameters == {"top_k": 6, "min_p": 0.1}
    state = explained(panel, values_of(panel, {"top_k": 6, "min_p": 4.0}, "c"))
    assert "out of range" in state["rows"]["min_p"]["problem"]
    assert chat.store.conversation("c").parameters == {"top_k": 6, "min_p": 0.1}


def test_a_conversation_that_is_gone_is_told_not_raised(panel: Panel) -> None:
    assert explained(panel, values_of(panel, {}, "gone"))["trouble"]


def test_an_unset_control_stands_at_what_acts(panel: Panel) -> None:
    state = explained(panel, values_of(panel, {}))
    assert state["rows"]["top_k"]["stands"] == 50
    assert state["rows"]["top_k"]["source"] == "library"
    assert state["rows"]["do_sample"]["stands"] is True


def test_a_slider_takes_the_limits_of_the_model_in_use(panel: Panel, engine: Any) -> None:
    at = panel.outputs.index(next(c for c in panel.outputs if c.elem_id == "param-max_new_tokens"))
    assert panel.shown(Conversation())[at]["maximum"] == FACTS.context_length
    engine.model = replace(engine.model, facts=replace(FACTS, context_length=99))
    assert panel.shown(Conversation())[at]["maximum"] == 99


def test_what_a_preset_gave_is_told_from_what_was_set_by_hand(panel: Panel, chat: Chat) -> None:
    chat.store.save_preset("Mine", {"top_k": 6, "min_p": 0.1})
    chat.store.create_conversation(Conversation("c"))
    rows = explained(panel, values_of(panel, {"top_k": 6, "min_p": 0.2, "top_p": 0.5}, "c", "Mine"))["rows"]
    assert {name: rows[name]["source"] for name in ("top_k", "min_p", "top_p")} == {
        "top_k": "preset",
        "min_p": "set",
        "top_p": "set",
    }
    assert (chat.store.conversation("c").preset, rows["top_k"]["reason"]) == ("Mine", "From the preset.")
    chat.store.delete_preset("Mine")
    assert explained(panel, values_of(panel, {"top_k": 6}, "c", "Mine"))["rows"]["top_k"]["source"] == "set"


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [
        (None, ("", {"top_k": 5}, "Mine")),
        ("rubbish", ("", {"top_k": 5}, "Mine")),
        ({"system_prompt": "Be brief."}, ("Be brief.", {"top_k": 5}, "Mine")),
        ({"parameters": {}, "preset": ""}, ("", {}, "")),
        ({"parameters": {"top_k": 7}, "preset": "Other", "system_prompt": "x"}, ("x", {"top_k": 7}, "Other")),
        ({"parameters": [1], "system_prompt": None}, ("", {"top_k": 5}, "Mine")),
    ],
)
def test_a_new_conversation_begins_as_the_browser_kept_it(kept: Any, wanted: tuple[str, Any, str]) -> None:
    made = unsent(Conversation("", parameters={"top_k": 5}, preset="Mine"), kept)
    assert (made.system_prompt, made.parameters, made.preset) == wanted


@pytest.mark.parametrize(
    ("given", "name", "word"),
    [
        ({"temperature": 0.0}, "temperature", "greedy"),
        ({"do_sample": False, "top_k": 5}, "top_k", "ignored"),
        ({"num_beams": 4}, "num_beams", "4"),
        ({"top_k": 5_000}, "top_k", "1000"),
        ({"use_mtp": True}, "use_mtp", "refused"),
        ({"bad_words_ids": ["a\nb"]}, "bad_words_ids", "a↵b"),
        ({}, "top_k", "50"),
        ({}, "seed", "model’s"),
    ],
)
def test_effective_values_in_words(given: dict[str, Json], name: str, word: str) -> None:
    found = answer(given, FACTS)
    assert view(found, given, str)["rows"][name]["text"] == word


def test_what_was_typed_wrong_stays_as_it_was_typed() -> None:
    raw: dict[str, Json] = {
        "output_format": {"kind": "json_schema", "schema": '{"type":'},
        "cache_config": "{nbits",
        "watermarking_config": {"kind": "greenlist", "bias": 99},
    }
    for name, typed in raw.items():
        fields = all_fields()[name]
        again = fields.read(list(fields.show(typed)))
        assert again == typed if isinstance(typed, str) else typed.items() <= again.items()


def test_what_the_model_can_never_do_is_refused_before_it_is_sent(panel: Panel) -> None:
    with pytest.raises(BadParameter, match="use_mtp"):
        panel.requested(values_of(panel, {"use_mtp": True}))


def test_the_page_shows_every_row_once_and_the_negative_prompt_beside_guidance() -> None:
    shown = [row.name for _, rows in groups() for row in rows]
    assert sorted(shown) == sorted(BY_NAME)
    assert shown.index("negative_prompt") == shown.index("guidance_scale") + 1


def test_beams_say_that_nothing_streams() -> None:
    shown = view(answer({"num_beams": 4}, FACTS), {"num_beams": 4}, str)
    assert not shown["streams"]
    assert shown["mode"] == "4 beams, sampled"
    assert any("Streaming is off" in note for note in shown["notes"])


def test_what_cannot_act_is_told_with_its_reason() -> None:
    row = view(answer({}, FACTS), {}, str)["rows"]["length_penalty"]
    assert (row["available"], row["told"]) == (False, True)
    assert "only one beam" in row["reason"]


def test_neutralizing_leaves_nothing_that_acts_and_sets_no_more_than_needed() -> None:
    wanted = neutralizing(FACTS)
    assert "min_p" not in wanted
    values = answer(wanted, FACTS).resolution.values
    assert all(values[name] == row.off for name, row in BY_NAME.items() if row.neutral and row.kind != "tokens")
