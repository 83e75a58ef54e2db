"""The shapes that GenerationConfig wants, and the way back to JSON."""

from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig, SynthIDTextWatermarkingConfig, WatermarkingConfig

from app.conversation import Json
from app.errors import BadParameter
from app.parameters.resolve import read_back, resolve
from app.parameters.sending import variants
from tests.parameters.tiny import END, FACTS, encode


def sent(requested: dict[str, Json]) -> dict[str, Json]:
    return resolve(requested, FACTS).generation_kwargs(encode)


def test_every_field_is_there_so_that_off_is_explicit() -> None:
    kwargs = sent({})
    assert (kwargs["top_k"], kwargs["epsilon_cutoff"], kwargs["repetition_penalty"]) == (50, 0.0, 1.0)
    greedy = sent({"temperature": 0})
    assert (greedy["top_k"], greedy["top_p"], greedy["temperature"]) == (0, 1.0, 1.0)
    config = GenerationConfig(**kwargs)
    assert {n for n, v in vars(config).items() if n in kwargs and v is None} == {
        n for n, v in kwargs.items() if v is None
    }


def test_what_the_engine_does_itself_is_not_sent() -> None:
    resolution = resolve({"stop_strings": ["x"], "token_healing": True}, FACTS)
    kwargs = resolution.generation_kwargs(encode)
    assert (kwargs["stop_strings"], kwargs["token_healing"]) == (None, None)
    assert (resolution.values["stop_strings"], resolution.values["token_healing"]) == (["x"], True)
    back = read_back(GenerationConfig(**kwargs), resolution)
    assert (back["stop_strings"], back["token_healing"]) == (["x"], True)


def test_phrases_come_with_and_without_a_leading_space_once_each() -> None:
    assert sent({"bad_words_ids": ["ab", [7, 8]]})["bad_words_ids"] == [[97, 98], [32, 97, 98], [7, 8]]
    assert sent({"bad_words_ids": [" ab"]})["bad_words_ids"] == [[32, 97, 98]]
    assert sent({"sequence_bias": [["a", 2.0], [[97], 3.0]]})["sequence_bias"] == [[[97], 3.0], [[32, 97], 2.0]]


def test_a_tokenizer_that_adds_a_space_does_not_hide_the_bare_form() -> None:
    def spaced(text: str) -> list[int]:
        return [ord(character) for character in f" {text}"]

    assert [97] in variants("a", spaced)
    assert [32, 97] in variants("a", spaced)


def test_tokens_are_single() -> None:
    assert sent({"eos_token_id": ["a", 7]})["eos_token_id"] == [97, 7]
    assert sent({"suppress_tokens": ["a", 97]})["suppress_tokens"] == [97]
    for name in ("eos_token_id", "suppress_tokens", "pad_token_id"):
        with pytest.raises(BadParameter, match="2 tokens") as refused:
            sent({name: ["ab"] if name != "pad_token_id" else "ab"})
        assert refused.value.name == name


@pytest.mark.parametrize("name", ["forced_bos_token_id", "forced_eos_token_id"])
def test_forcing_and_suppressing_the_same_token_is_a_conflict(name: str) -> None:
    with pytest.raises(BadParameter, match="conflicts with suppress_tokens"):
        sent({name: 7 if name == "forced_bos_token_id" else [7], "suppress_tokens": [7, 8]})


def test_configuration_objects() -> None:
    green = sent({"watermarking_config": {"bias": 3}})["watermarking_config"]
    assert isinstance(green, WatermarkingConfig)
    assert green.bias == 3.0
    assert isinstance(
        sent({"watermarking_config": {"kind": "synthid"}})["watermarking_config"], SynthIDTextWatermarkingConfig
    )
    compiled = sent({"cache_implementation": "static", "compile_config": {"backend": "eager"}})["compile_config"]
    assert (compiled.backend, compiled.fullgraph) == ("eager", False)
    assert sent({"exponential_decay_length_penalty": [3, 2]})["exponential_decay_length_penalty"] == (3, 2.0)


def test_reading_back_turns_tensors_and_objects_into_json() -> None:
    requested: dict[str, Json] = {
        "watermarking_config": {"kind": "synthid"},
        "sequence_bias": [["a", 2.0]],
        "exponential_decay_length_penalty": [3, 2.0],
        "cache_implementation": "static",
        "compile_config": {"backend": "eager"},
        "seed": 5,
    }
    resolution = resolve(requested, FACTS)
    prepared = GenerationConfig(**resolution.generation_kwargs(encode))
    prepared.eos_token_id = torch.tensor([END])
    prepared.pad_token_id = torch.tensor(END)
    back = read_back(prepared, resolution)
    assert (back["eos_token_id"], back["pad_token_id"]) == ([END], END)
    assert back["sequence_bias"] == [[[97], 2.0], [[32, 97], 2.0]]
    for name in ("watermarking_config", "exponential_decay_length_penalty", "compile_config", "seed"):
        assert back[name] == resolution.values[name], name
    assert (back["min_p"], back["min_new_tokens"], back["prompt_lookup_num_tokens"]) == (0.0, 0, 0)
