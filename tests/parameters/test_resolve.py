"""What was asked becomes what acts, and every difference is explained in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversation import Json
from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters.presets import neutral
from app.parameters.resolve import Resolution, resolve
from app.parameters.table import BY_NAME, SAMPLING, TABLE
from tests.parameters.tiny import END, FACTS, any_value

TALKATIVE = replace(
    FACTS, generation_defaults={"do_sample": True, "temperature": 0.6, "top_p": 0.8, "eos_token_id": [1, 2]}
)
DRAFTED = replace(FACTS, draft_model="small")


def told(resolution: Resolution, name: str) -> str:
    return resolution.explained[name].reason


def test_a_silent_model_chats_with_faders_defaults_and_the_librarys_top_k() -> None:
    resolution = resolve({}, FACTS)
    values = resolution.values
    assert (values["do_sample"], values["temperature"], values["top_p"], values["top_k"]) == (True, 0.7, 0.9, 50)
    assert {resolution.explained[n].source for n in ("do_sample", "temperature", "top_p")} == {"fader"}
    assert resolution.explained["top_k"].source == "library"
    assert "50" in told(resolution, "top_k")


def test_a_model_that_says_something_is_believed() -> None:
    resolution = resolve({}, TALKATIVE)
    assert (resolution.values["temperature"], resolution.values["top_p"]) == (0.6, 0.8)
    assert resolution.explained["temperature"].source == "model"
    assert "generation_config.json" in told(resolution, "temperature")
    assert resolution.values["eos_token_id"] == [1, 2]


def test_a_model_that_recommends_a_temperature_means_to_be_sampled() -> None:
    resolution = resolve({}, replace(FACTS, generation_defaults={"temperature": 0.6}))
    assert resolution.values["do_sample"] is True
    assert "implied by the model's temperature" in told(resolution, "do_sample")


def test_a_model_that_asks_for_greedy_gets_it() -> None:
    resolution = resolve({}, replace(FACTS, generation_defaults={"do_sample": False}))
    assert resolution.values["do_sample"] is False
    assert resolution.explained["temperature"].available, "setting it would switch sampling on"


def test_a_models_unusable_default_is_left_out() -> None:
    resolution = resolve({}, replace(FACTS, generation_defaults={"do_sample": True, "top_p": 7, "top_k": "x"}))
    assert (resolution.values["top_p"], resolution.values["top_k"]) == (1.0, 50)


@pytest.mark.parametrize("source", ["set", "conversation", "preset"])
def test_a_wish_beats_the_model_and_says_whose_it_is(source: str) -> None:
    resolution = resolve({"top_p": 0.5}, TALKATIVE, sources={"top_p": source})
    assert resolution.values["top_p"] == 0.5
    assert resolution.explained["top_p"].source == source


@pytest.mark.parametrize("name", SAMPLING)
def test_every_sampling_parameter_switches_sampling_on(name: str) -> None:
    greedy = replace(FACTS, generation_defaults={"do_sample": False})
    resolution = resolve({name: 0.5 if name != "top_k" else 5}, greedy)
    assert resolution.values["do_sample"] is True
    assert resolution.explained["do_sample"].kind == "implied"
    assert name in told(resolution, "do_sample")


@pytest.mark.parametrize("name", SAMPLING)
def test_explicitly_greedy_ignores_sampling_parameters_aloud(name: str) -> None:
    resolution = resolve({"do_sample": False, name: 0.5 if name != "top_k" else 5}, FACTS)
    assert resolution.values["do_sample"] is False
    assert resolution.values[name] == BY_NAME[name].off
    assert resolution.explained[name].kind == "ignored"
    assert not resolution.explained[name].available
    assert any(note.startswith(f"{name}: Ignored") for note in resolution.notes)


def test_temperature_zero_is_greedy_and_says_so() -> None:
    resolution = resolve({"temperature": 0}, FACTS)
    assert resolution.values["do_sample"] is False
    assert "greedy" in told(resolution, "temperature").lower()
    assert "temperature 0" in told(resolution, "do_sample")
    assert resolution.explained["temperature"].available, "its slider must not lock itself"


def test_temperature_zero_against_do_sample_is_a_conflict_that_is_told() -> None:
    resolution = resolve({"temperature": 0, "do_sample": True}, FACTS)
    assert resolution.values["do_sample"] is False
    assert resolution.explained["do_sample"].kind == "conflict"
    assert any("do_sample" in note for note in resolution.notes)


def test_the_coldest_temperature_does_not_overflow() -> None:
    resolution = resolve({"temperature": 1e-300}, FACTS)
    assert resolution.values["temperature"] > 1e-5
    assert "use 0" in told(resolution, "temperature")


def test_the_reply_is_fitted_to_the_free_context() -> None:
    assert resolve({}, replace(FACTS, context_length=8192), prompt_tokens=100).values["max_new_tokens"] == 1024
    resolution = resolve({}, FACTS, prompt_tokens=44)
    assert resolution.values["max_new_tokens"] == 20
    assert "fitted to 20" in told(resolution, "max_new_tokens")
    assert resolution.notes == (), "a fitted default is no news"


def test_a_wish_beyond_the_context_is_clamped_and_noted() -> None:
    resolution = resolve({"max_new_tokens": 500}, FACTS, prompt_tokens=44)
    assert resolution.values["max_new_tokens"] == 20
    assert resolution.explained["max_new_tokens"].kind == "clamped"
    assert any("500" in note and "20" in note for note in resolution.notes)


def test_null_means_as_long_as_there_is_room() -> None:
    assert resolve({"max_new_tokens": None}, FACTS, prompt_tokens=10).values["max_new_tokens"] == 54


def test_max_length_alone_bounds_prompt_and_reply() -> None:
    resolution = resolve({"max_length": 30}, FACTS, prompt_tokens=10)
    assert (resolution.values["max_length"], resolution.values["max_new_tokens"]) == (30, None)
    both = resolve({"max_length": 30, "max_new_tokens": 5}, FACTS, prompt_tokens=10)
    assert (both.values["max_length"], both.values["max_new_tokens"]) == (15, 5)
    assert both.explained["max_length"].kind == "conflict"


def test_a_prompt_longer_than_max_length_is_refused_in_words() -> None:
    with pytest.raises(BadParameter, match="prompt alone has 31 tokens"):
        resolve({"max_length": 30}, FACTS, prompt_tokens=31)


def test_min_new_tokens_wins_over_min_length_and_stays_below_the_maximum() -> None:
    resolution = resolve({"min_length": 30, "min_new_tokens": 50, "max_new_tokens": 8}, FACTS, prompt_tokens=10)
    assert (resolution.values["min_new_tokens"], resolution.values["min_length"]) == (8, 18)
    assert "min_new_tokens" in told(resolution, "min_length")
    alone = resolve({"min_length": 30}, FACTS, prompt_tokens=10)
    assert (alone.values["min_length"], alone.values["min_new_tokens"]) == (30, 0)


def test_beams_switch_streaming_off_and_say_why() -> None:
    resolution = resolve({"num_beams": 4}, FACTS)
    assert not resolution.streams
    assert any("Streaming is off" in note and "beam" in note for note in resolution.notes)
    assert resolve({}, FACTS).streams


def test_sequences_are_limited_by_beams_and_by_greedy() -> None:
    beams = resolve({"num_beams": 2, "num_return_sequences": 5}, FACTS)
    assert beams.values["num_return_sequences"] == 2
    greedy = resolve({"do_sample": False, "num_return_sequences": 5}, FACTS)
    assert greedy.values["num_return_sequences"] == 1
    assert "only one reply" in told(greedy, "num_return_sequences")
    assert resolve({"num_return_sequences": 5}, FACTS).values["num_return_sequences"] == 5


def test_outputs_imply_return_dict() -> None:
    resolution = resolve({"output_scores": True}, FACTS)
    assert resolution.values["return_dict_in_generate"] is True
    assert "output_scores" in told(resolution, "return_dict_in_generate")


def test_the_pad_token_falls_back_to_the_end_token() -> None:
    assert resolve({}, FACTS).values["pad_token_id"] == END


REFUSED: list[tuple[str, Json, str]] = [
    ("use_mtp", True, "multi-token-prediction"),
    ("cache_implementation", "offloaded", "CPU"),
    ("cache_implementation", "quantized", "installed"),
    ("assistant_early_exit", 1, "early exit"),
    ("speculation_type", "dflash", "DFlash"),
    ("is_assistant", True, "draft model"),
]


@pytest.mark.parametrize(("name", "value", "why"), REFUSED)
def test_the_impossible_is_refused_when_set_and_ignored_when_it_comes_along(name: str, value: Json, why: str) -> None:
    with pytest.raises(BadParameter, match=why):
        resolve({name: value}, FACTS)
    resolution = resolve({name: value}, FACTS, sources={name: "conversation"})
    assert resolution.values[name] == BY_NAME[name].off
    assert any(why in note for note in resolution.notes)


def test_without_a_model_nothing_is_refused_for_its_sake() -> None:
    resolution = resolve({"use_mtp": True}, None)
    assert resolution.explained["use_mtp"].kind == "ignored"


def test_what_a_model_can_do_is_not_refused() -> None:
    able = replace(FACTS, has_mtp_layers=True, supports_early_exit=True, device="cuda:0")
    for name, value in (("use_mtp", True), ("assistant_early_exit", 1), ("cache_implementation", "offloaded")):
        assert resolve({name: value}, able).values[name] == value


CONFLICTS: list[tuple[dict[str, Json], str]] = [
    ({"max_length": 30, "max_new_tokens": 5}, "max_length"),
    ({"min_length": 30, "min_new_tokens": 5}, "min_length"),
    ({"min_new_tokens": 30, "max_new_tokens": 5}, "min_new_tokens"),
    ({"do_sample": True, "temperature": 0}, "do_sample"),
    ({"do_sample": False, "num_return_sequences": 2}, "num_return_sequences"),
    ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences"),
    ({"num_beams": 2, "prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens"),
    ({"num_return_sequences": 2, "prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens"),
    ({"guidance_scale": 2.0, "prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens"),
    ({"use_cache": False, "prompt_lookup_num_tokens": 3}, "prompt_lookup_num_tokens"),
    ({"num_beams": 2, "guidance_scale": 2.0}, "guidance_scale"),
    ({"output_scores": True, "return_dict_in_generate": False}, "return_dict_in_generate"),
    ({"output_logits": True, "return_dict_in_generate": False}, "return_dict_in_generate"),
    ({"output_attentions": True, "return_dict_in_generate": False}, "return_dict_in_generate"),
    ({"output_hidden_states": True, "return_dict_in_generate": False}, "return_dict_in_generate"),
    ({"remove_invalid_values": True, "exponential_decay_length_penalty": [1, 1.5]}, "exponential_decay_length_penalty"),
    ({"num_beams": 2, "watermarking_config": {"kind": "synthid"}}, "watermarking_config"),
    ({"cache_implementation": "static", "compile_config": {}, "disable_compile": True}, "compile_config"),
]


@pytest.mark.parametrize(("requested", "loser"), CONFLICTS, ids=lambda v: "+".join(v) if isinstance(v, dict) else v)
def test_pairs_that_conflict_say_so(requested: dict[str, Json], loser: str) -> None:
    resolution = resolve(requested, FACTS, prompt_tokens=5)
    assert resolution.explained[loser].kind in ("conflict", "ignored", "clamped")
    others = set(requested) - {loser}
    assert any(other in told(resolution, loser) for other in others)
    assert any(note.startswith(f"{loser}:") for note in resolution.notes)


def test_a_static_cache_without_a_cache_is_refused() -> None:
    with pytest.raises(BadParameter, match="use_cache"):
        resolve({"use_cache": False, "cache_implementation": "static"}, FACTS)


def test_conflicting_pairs_of_the_table_are_all_tried() -> None:
    declared = {frozenset((row.name, other)) for row in TABLE for other in row.conflicts_with}
    tried = {frozenset((a, b)) for requested, _ in CONFLICTS for a in requested for b in requested if a != b}
    elsewhere = {
        frozenset(("use_cache", "cache_implementation")),  # above
        frozenset(("forced_bos_token_id", "suppress_tokens")),  # test_sending: known once texts are encoded
        frozenset(("forced_eos_token_id", "suppress_tokens")),
        frozenset(("assistant_ensemble_weight", "prompt_lookup_num_tokens")),  # below, with a draft model
    }
    assert declared - tried - elsewhere == set()


def test_a_draft_model_takes_the_place_of_prompt_lookup() -> None:
    resolution = resolve({"prompt_lookup_num_tokens": 4, "num_assistant_tokens": 7}, DRAFTED)
    assert (resolution.values["prompt_lookup_num_tokens"], resolution.values["num_assistant_tokens"]) == (0, 7)
    assert "small" in told(resolution, "prompt_lookup_num_tokens")
    weight = resolve({"assistant_ensemble_weight": 0.5}, DRAFTED)
    assert weight.values["assistant_ensemble_weight"] == 0.5
    assert resolve({"assistant_ensemble_weight": 0.5}, FACTS).values["assistant_ensemble_weight"] is None


def test_lookbehinds_need_another_tokenizer_and_greedy() -> None:
    foreign = replace(DRAFTED, draft_shares_tokenizer=False)
    assert resolve({"target_lookbehind": 3, "do_sample": False}, foreign).values["target_lookbehind"] == 3
    assert resolve({"target_lookbehind": 3}, foreign).explained["target_lookbehind"].kind == "ignored"
    assert "same tokenizer" in told(resolve({"target_lookbehind": 3, "do_sample": False}, DRAFTED), "target_lookbehind")


def test_attention_needs_eager() -> None:
    resolution = resolve({"output_attentions": True}, replace(FACTS, attention="sdpa"))
    assert resolution.values["output_attentions"] is False
    assert "eager" in told(resolution, "output_attentions")


def test_the_decay_can_not_overflow() -> None:
    long = replace(FACTS, context_length=8192)
    start, factor = resolve({"exponential_decay_length_penalty": [0, 5.0], "max_new_tokens": 4000}, long).values[
        "exponential_decay_length_penalty"
    ]
    assert (start, 1.0 < factor < 1.2) == (0, True)
    assert factor**4000 < float("inf")


def test_neutral_leaves_the_bare_model() -> None:
    resolution = resolve(neutral(), TALKATIVE)
    assert resolution.notes == ()
    for row in TABLE:
        if row.neutral:
            assert resolution.values[row.name] == row.off, row.name


def test_without_a_model_the_page_can_still_explain() -> None:
    resolution = resolve({"num_beams": 2}, None)
    assert not resolution.streams
    assert set(resolution.values) == set(BY_NAME)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    requested=st.sets(st.sampled_from([r.name for r in TABLE if not r.refused]), max_size=10).flatmap(
        lambda names: st.fixed_dictionaries({n: any_value(BY_NAME[n]) for n in sorted(names)})
    ),
    facts=st.sampled_from([FACTS, TALKATIVE, DRAFTED, None]),
    prompt=st.none() | st.integers(0, 5),
)
def test_every_difference_is_explained(
    requested: dict[str, Json], facts: ModelFacts | None, prompt: int | None
) -> None:
    resolution = resolve(requested, facts, prompt_tokens=prompt)
    again = resolve(requested, facts, prompt_tokens=prompt)
    assert again == resolution
    for row in TABLE:
        explanation = resolution.explained[row.name]
        assert explanation.reason.endswith("."), row.name
        assert explanation.source in ("set", "conversation", "preset", "model", "library", "fader", "implied")
        if (
            row.name in requested
            and resolution.values[row.name] != requested[row.name]
            and not _means_unset(row.name, requested)
        ):
            assert explanation.kind not in ("set", "default"), row.name


def _means_unset(name: str, requested: dict[str, Json]) -> bool:
    return requested[name] is None or requested[name] != _validated(name, requested[name])


def _validated(name: str, value: Json) -> Json:
    from app.parameters.validate import check

    return check(name, value)
