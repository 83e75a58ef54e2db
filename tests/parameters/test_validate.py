"""Values of the wrong JSON type are converted when that is exact, and refused by name otherwise."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversation import Json
from app.errors import BadParameter
from app.parameters.table import BY_NAME
from app.parameters.validate import check, parse_assignment, problems, validate
from tests.parameters.tiny import FACTS


@pytest.mark.parametrize(
    ("name", "value", "converted"),
    [
        ("temperature", 1, 1.0),
        ("temperature", "0.7", 0.7),
        ("temperature", " 5e-1 ", 0.5),
        ("top_k", "40", 40),
        ("top_k", 40.0, 40),
        ("top_k", "4e1", 40),
        ("do_sample", "true", True),
        ("do_sample", "False", False),
        ("stop_strings", "END", ["END"]),
        ("stop_strings", ["b", "a", "b"], ["b", "a"]),
        ("stop_strings", '["a", "b"]', ["a", "b"]),
        ("eos_token_id", 2, [2]),
        ("eos_token_id", ["</s>", 7], ["</s>", 7]),
        ("eos_token_id", [], []),
        ("suppress_tokens", ["40"], ["40"]),
        ("forced_bos_token_id", "40", 40),
        ("forced_bos_token_id", "<de>", "<de>"),
        ("bad_words_ids", ["damn", [3, 4], 5], ["damn", [3, 4], [5]]),
        ("sequence_bias", {"blue": 2}, [["blue", 2.0]]),
        ("sequence_bias", [[[3, 4], 2], {"text": "x", "bias": "-1"}], [[[3, 4], 2.0], ["x", -1.0]]),
        ("exponential_decay_length_penalty", [15, 2], [15, 2.0]),
        ("early_stopping", "never", "never"),
        ("early_stopping", "true", True),
        ("top_h", None, None),
        ("cache_config", '{"nbits": 4}', {"nbits": 4}),
        ("negative_prompt", "", ""),
    ],
)
def test_exact_conversions(name: str, value: Json, converted: Json) -> None:
    result = check(name, value)
    assert result == converted
    assert type(result) is type(converted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 40.5),
        ("top_k", True),
        ("top_k", None),
        ("top_k", -1),
        ("top_k", "many"),
        ("top_k", [40]),
        ("temperature", math.nan),
        ("temperature", json.loads("1e999")),
        ("temperature", json.loads("-1e999")),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("temperature", "1_0"),
        ("temperature", 10**400),
        ("temperature", 5.01),
        ("temperature", True),
        ("temperature", "true"),
        ("top_p", 0),
        ("top_p", 1.5),
        ("epsilon_cutoff", 1),
        ("typical_p", 0),
        ("top_h", 0),
        ("num_beams", 0),
        ("do_sample", 1),
        ("do_sample", "yes"),
        ("do_sample", None),
        ("stop_strings", [""]),
        ("stop_strings", [1]),
        ("stop_strings", None),
        ("eos_token_id", [-1]),
        ("eos_token_id", [1.5]),
        ("bad_words_ids", [[]]),
        ("bad_words_ids", [["a"]]),
        ("sequence_bias", [["blue"]]),
        ("sequence_bias", [["blue", math.inf]]),
        ("sequence_bias", [["blue", 1e9]]),
        ("exponential_decay_length_penalty", [1]),
        ("exponential_decay_length_penalty", [-1, 2.0]),
        ("exponential_decay_length_penalty", [1, 0]),
        ("cache_implementation", "paged"),
        ("early_stopping", 1),
        ("watermarking_config", {"kind": "greenlist", "greenlist_ratio": 1}),
        ("watermarking_config", {"kind": "ink"}),
        ("watermarking_config", {"bia": 2}),
        ("watermarking_config", {"kind": "synthid", "keys": []}),
        ("compile_config", {"mode": "turbo"}),
        ("output_format", {"kind": "json_schema"}),
        ("output_format", {"kind": "regex", "pattern": ""}),
        ("output_format", {"kind": "choices", "choices": []}),
        ("output_format", "json"),
        ("seed", -1),
        ("seed", 2**32),
        ("context_policy", "forget"),
    ],
)
def test_everything_else_is_refused_naming_parameter_and_range(name: str, value: Json) -> None:
    with pytest.raises(BadParameter) as refused:
        validate({name: value})
    assert refused.value.name == name
    assert BY_NAME[name].range_text() in str(refused.value)


def test_unknown_names_are_refused_by_name() -> None:
    with pytest.raises(BadParameter, match="temprature"):
        validate({"temprature": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [("eos_token_id", [128]), ("pad_token_id", 500), ("bad_words_ids", [[1, 128]]), ("sequence_bias", [[[999], 1.0]])],
)
def test_ids_outside_the_vocabulary_are_refused_once_the_model_is_known(name: str, value: Json) -> None:
    validate({name: value})
    with pytest.raises(BadParameter, match="vocabulary of 128"):
        validate({name: value}, FACTS)


def test_all_problems_are_named_at_once() -> None:
    found = problems({"top_p": 2, "top_k": 3, "nothing": 1})
    assert set(found) == {"top_p", "nothing"}


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        ("top_k=40", "top_k", 40),
        ("stop_strings=THE END", "stop_strings", "THE END"),
        ('stop_strings=["a=b", "c"]', "stop_strings", ["a=b", "c"]),
        ("stop_strings=a=b", "stop_strings", "a=b"),
        ("do_sample=true", "do_sample", True),
        ("negative_prompt=40", "negative_prompt", "40"),
        ("negative_prompt=", "negative_prompt", ""),
        (" top_h =null", "top_h", None),
    ],
)
def test_assignments_of_the_command_line(typed: str, name: str, value: Json) -> None:
    assert parse_assignment(typed) == (name, value)


@pytest.mark.parametrize("typed", ["top_k", "", "=3", "no_such=3"])
def test_malformed_assignments_are_refused(typed: str) -> None:
    with pytest.raises(BadParameter):
        parse_assignment(typed)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(name=st.sampled_from(sorted(BY_NAME)), value=_json)
def test_any_json_value_is_converted_or_refused_and_never_anything_else(name: str, value: Json) -> None:
    try:
        converted = check(name, value, FACTS)
    except BadParameter as refused:
        assert refused.name == name  # noqa: PT017
        return
    assert check(name, converted, FACTS) == converted
    json.dumps(converted, allow_nan=False)
