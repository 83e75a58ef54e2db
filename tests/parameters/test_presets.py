"""Presets: the shipped ones work, files lose nothing that is usable, and what isn't is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadParameter, RefusedInput
from app.parameters.presets import export_preset, load_preset_file, shipped
from app.parameters.resolve import resolve
from tests.parameters.tiny import FACTS


def test_the_promised_presets_are_there() -> None:
    names = {preset.name for preset in shipped()}
    assert {"Deterministic", "Balanced", "Creative", "Min-p", "Long form without repetition", "Brainstorm"} <= names
    assert len(names) == len(shipped())


@pytest.mark.parametrize("preset", shipped(), ids=lambda preset: preset.name)
def test_a_shipped_preset_acts_as_it_says(preset: object) -> None:
    from app.parameters.presets import Preset

    assert isinstance(preset, Preset)
    assert preset.description.endswith(".")
    resolution = resolve(preset.parameters, FACTS, sources=dict.fromkeys(preset.parameters, "preset"))
    for name, value in preset.parameters.items():
        explanation = resolution.explained[name]
        assert explanation.source == "preset"
        assert resolution.values[name] == value or explanation.kind == "clamped", name


def test_deterministic_is_greedy_and_brainstorm_samples_wildly() -> None:
    by_name = {preset.name: resolve(preset.parameters, FACTS).values for preset in shipped()}
    assert by_name["Deterministic"]["do_sample"] is False
    assert by_name["Brainstorm"]["temperature"] > 1.5
    assert by_name["Brainstorm"]["top_h"] < 1


def test_export_and_load_keep_exactly_what_is_set() -> None:
    parameters = {"top_k": 40, "temperature": 1, "stop_strings": "Ende", "top_h": None}
    text = export_preset("Meins", parameters, "für mich")
    report = load_preset_file(text)
    assert report.good == {"top_k": 40, "temperature": 1.0, "stop_strings": ["Ende"], "top_h": None}
    assert (report.problems, report.name, report.description) == ({}, "Meins", "für mich")


def test_bad_values_are_named_and_the_good_ones_loaded() -> None:
    text = json.dumps({"name": "x", "parameters": {"top_k": 40, "top_p": 7, "no_such": 1, "temperature": "warm"}})
    report = load_preset_file(text)
    assert report.good == {"top_k": 40}
    assert set(report.problems) == {"top_p", "no_such", "temperature"}
    assert "to 1" in report.problems["top_p"]


def test_a_plain_object_of_parameters_is_a_preset_too() -> None:
    assert load_preset_file('{"min_p": 0.1, "name": "n"}').good == {"min_p": 0.1}


@pytest.mark.parametrize("text", ["", "nothing", "[1, 2]", "3", "{", "[" * 200_000])
def test_what_is_no_object_is_refused_in_words(text: str) -> None:
    with pytest.raises(RefusedInput, match="preset"):
        load_preset_file(text)


def test_an_unloadable_value_is_not_exported() -> None:
    with pytest.raises(BadParameter, match="top_p"):
        export_preset("x", {"top_p": 3})


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(values=st.dictionaries(st.sampled_from(["top_k", "top_p", "stop_strings", "watermarking_config", "x"]), _json))
def test_no_file_breaks_the_loader(values: dict[str, object]) -> None:
    report = load_preset_file(json.dumps({"parameters": values}))
    assert set(report.good) | set(report.problems) == set(values)
