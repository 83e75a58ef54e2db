"""Whatever a user sets within the ranges, transformers accepts what is sent and generate never raises."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import GenerationConfig, PreTrainedModel

from app.conversation import Json
from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters.resolve import Resolution, read_back, resolve
from app.parameters.row import Parameter
from app.parameters.table import BY_NAME, TABLE
from tests.parameters import tiny

PROMPT_TOKENS = 5
SHORT = {"max_new_tokens": 6}
WITHOUT_REFUSED = [row for row in TABLE if not row.refused and not row.own]


@pytest.fixture(autouse=True, scope="module")
def quiet_and_single_threaded() -> Iterator[None]:
    """The library logs hints about combinations that are explained already; threads cost more than so small a model gains."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return tiny.llama()


@pytest.fixture(scope="module")
def encoder_decoder() -> PreTrainedModel:
    return tiny.t5()


def resolved(requested: dict[str, Json], facts: ModelFacts = tiny.FACTS) -> Resolution:
    prompt = 0 if facts.is_encoder_decoder else PROMPT_TOKENS
    short = {} if "max_length" in requested else SHORT
    return resolve({**short, **requested}, facts, prompt_tokens=prompt)


def check_run(model: Any, resolution: Resolution) -> torch.Tensor:
    config = GenerationConfig(**resolution.generation_kwargs(tiny.encode))
    config.validate()
    seen: list[GenerationConfig] = []
    original = model._prepare_special_tokens

    def spy(prepared: GenerationConfig, *args: object, **kwargs: object) -> None:
        seen.append(prepared)
        original(prepared, *args, **kwargs)

    model._prepare_special_tokens = spy
    try:
        made = tiny.run(model, config)
    finally:
        del model._prepare_special_tokens
    assert made.shape[0] == resolution.values["num_return_sequences"]
    _agrees(resolution, read_back(seen[0], resolution))
    return made


def _agrees(resolution: Resolution, ran: dict[str, Json]) -> None:
    """What generate ran with is what was shown, texts having become ids."""
    for row in TABLE:
        shown = resolution.values[row.name]
        if row.kind in ("token", "tokens", "phrases", "rows"):
            assert bool(ran[row.name] in (None, [])) == bool(shown in (None, [])), row.name
        else:
            assert ran[row.name] == shown, row.name


@pytest.mark.parametrize(
    ("row", "value"),
    [pytest.param(row, value, id=f"{row.name}={value}") for row in WITHOUT_REFUSED for value in tiny.ends(row)],
)
def test_ends_and_off_can_be_sent(model: PreTrainedModel, row: Parameter, value: Json) -> None:
    check_run(model, resolved({row.name: value}))


@pytest.mark.parametrize(
    ("row", "value"),
    [
        pytest.param(row, value, id=f"{row.name}={value}")
        for row in WITHOUT_REFUSED
        if row.name != "decoder_start_token_id"
        for value in tiny.ends(row)[:1]
    ],
)
def test_encoder_decoder_models_take_them_too(encoder_decoder: PreTrainedModel, row: Parameter, value: Json) -> None:
    facts = tiny.ENCODER_FACTS
    check_run(encoder_decoder, resolved({"decoder_start_token_id": 0, row.name: value}, facts))


_settable = st.sets(st.sampled_from([row.name for row in WITHOUT_REFUSED]), min_size=2, max_size=8)
combinations = _settable.flatmap(
    lambda names: st.fixed_dictionaries({n: tiny.any_value(BY_NAME[n]) for n in sorted(names)})
)


def check_combination(model: PreTrainedModel, requested: dict[str, Json]) -> None:
    try:
        resolution = resolved(requested)
        resolution.generation_kwargs(tiny.encode)
    except BadParameter as refused:
        assert refused.name in BY_NAME  # noqa: PT017  (a clear refusal before anything runs is as good as a run)
        return
    check_run(model, resolution)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requested=combinations)
def test_random_combinations_never_crash(model: PreTrainedModel, requested: dict[str, Json]) -> None:
    check_combination(model, requested)


@pytest.mark.full
@settings(max_examples=1500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requested=combinations)
def test_many_random_combinations_never_crash(model: PreTrainedModel, requested: dict[str, Json]) -> None:
    check_combination(model, requested)


STRUCTURAL: dict[str, Json] = {
    "do_sample": False,
    "num_beams": 3,
    "num_return_sequences": 3,
    "use_cache": False,
    "cache_implementation": "static",
    "compile_config": {"backend": "eager"},
    "guidance_scale": 2.0,
    "prompt_lookup_num_tokens": 4,
    "watermarking_config": {"kind": "synthid"},
    "eos_token_id": [],
    "temperature": 0,
    "min_new_tokens": 4,
    "max_length": 9,
    "forced_eos_token_id": [3],
    "output_attentions": True,
    "exponential_decay_length_penalty": [1, 1.5],
    "top_h": 0.4,
}
"""The parameters that change how generation works at all, each at a value that does so."""


@pytest.mark.parametrize("pair", list(itertools.combinations(STRUCTURAL, 2)), ids="+".join)
def test_every_pair_of_structural_parameters_runs(model: PreTrainedModel, pair: tuple[str, str]) -> None:
    check_combination(model, {name: STRUCTURAL[name] for name in pair})
