"""Random combinations of parameters never crash a run, and what generate ran with is what the page showed before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.conversation import RunStatus
from app.models.loading import LoadedModel
from app.parameters.resolve import Resolution, resolve
from app.parameters.row import Group, Parameter
from app.parameters.sending import as_json
from app.parameters.table import BY_NAME, TABLE
from tests.proofs.conftest import UNSET, Lab, laboratory

TEXTS = st.sampled_from(["a", " the", "hello", "你好", "🙂", "\n", "<|im_end|>", " hello world", "é"])
TOKENS = st.integers(0, 399) | st.sampled_from(["a", "<|im_end|>", "e"])
PHRASES = TEXTS | st.lists(st.integers(0, 399), min_size=1, max_size=3)
SHAPES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "text": TEXTS,
    "texts": st.lists(TEXTS, max_size=3),
    "token": TOKENS,
    "tokens": st.lists(TOKENS, max_size=4),
    "phrases": st.lists(PHRASES, max_size=3),
    "rows": st.lists(st.tuples(PHRASES, st.floats(-100, 100)).map(list), max_size=3),
    "pair": st.tuples(st.integers(0, 30), st.floats(0.01, 3)).map(list),
    "json": st.sampled_from([{}, {"nbits": 4}]),
    "watermark": st.sampled_from(
        [
            {"kind": "greenlist"},
            {"kind": "greenlist", "seeding_scheme": "selfhash", "context_width": 2},
            {"kind": "synthid"},
        ]
    ),
    "compile": st.just({"backend": "eager"}),
    "format": st.sampled_from(
        [
            {"kind": "choices", "choices": ["yes", "no"]},
            {"kind": "regex", "pattern": "[a-z]{1,9}"},
            {"kind": "json_schema", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        ]
    ),
}
SHORT: dict[str, st.SearchStrategy[Any]] = {
    "max_new_tokens": st.integers(1, 12),
    "max_length": st.integers(1, 60),
    "max_time": st.floats(0.001, 5),
    "num_beams": st.integers(1, 4),
    "num_return_sequences": st.integers(1, 4),
    "compile_config": st.none(),  # compiling takes seconds; it has proofs of its own
}
"""Narrower than the table, so that an example takes a moment."""


def values_of(row: Parameter) -> st.SearchStrategy[Any]:
    """What a control of this row can send."""
    if row.name in SHORT:
        return SHORT[row.name]
    if row.kind == "choice":
        return st.sampled_from(row.choices)
    if row.kind not in ("int", "float"):
        return SHAPES[row.kind]
    high = row.maximum if row.maximum is not None else (row.slider_high or 400)
    if row.kind == "int":
        return st.integers(int(row.minimum or 0), int(high))
    return st.floats(
        row.minimum or 0, high, exclude_min=row.above_minimum, exclude_max=row.below_maximum, allow_subnormal=False
    )


def combination() -> st.SearchStrategy[dict[str, Any]]:
    names = st.lists(st.sampled_from(sorted(set(BY_NAME) - {"is_assistant"})), min_size=1, max_size=7, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: values_of(BY_NAME[name]) for name in chosen}))


def names_a_parameter(error: str) -> bool:
    """A refusal that begins with the parameter, or the sentence about settings that exclude every token."""
    return error.split(":", maxsplit=1)[0] in BY_NAME or "Relax one of them" in error


def check(lab: Lab, requested: dict[str, Any]) -> None:
    asked = requested if {"max_new_tokens", "max_length"} & set(requested) else {**requested, "max_new_tokens": 6}
    bounded: dict[str, Any] = {"seed": 3} | asked
    everything: dict[str, Any] = {"max_new_tokens": UNSET} | bounded
    ended = lab.start(**everything).result(120)
    if ended.run.status is RunStatus.FAILED:
        assert names_a_parameter(ended.run.error or ""), (bounded, ended.run.error)
        return
    assert ended.run.status in (RunStatus.DONE, RunStatus.STOPPED)
    given_before = 0 if lab.loaded.facts.is_encoder_decoder else len(ended.run.prompt_ids)
    shown = resolve(bounded, lab.loaded.facts, prompt_tokens=given_before)
    assert dict(ended.run.effective) == as_sent(lab, shown) | {"seed": ended.run.seed}, bounded


def as_sent(lab: Lab, shown: Resolution) -> dict[str, Any]:
    """What was shown, texts that stand for tokens written as the ids they are sent as."""
    kwargs = shown.generation_kwargs(lab.encode)
    texts = ("token", "tokens", "phrases", "rows")
    ids = {row.name: as_json(row, kwargs[row.name]) for row in TABLE if row.kind in texts}
    return dict(shown.values) | ids


QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
LONG = settings(max_examples=1500, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(requested=combination())
@example(requested={"exponential_decay_length_penalty": [0, 3.0], "max_length": 60})
@example(requested={"num_beams": 3, "output_format": {"kind": "choices", "choices": ["yes"]}, "suppress_tokens": ["e"]})
@example(requested={"min_new_tokens": 9, "output_format": {"kind": "choices", "choices": ["yes"]}})
@example(
    requested={"forced_eos_token_id": ["a"], "output_format": {"kind": "choices", "choices": ["yes"]}, "num_beams": 2}
)
def test_a_random_combination_runs_or_is_refused_by_name(lab: Lab, requested: dict[str, Any]) -> None:
    check(lab, requested)


@settings(QUICK, max_examples=20)
@given(requested=combination())
def test_a_random_combination_on_an_encoder_decoder_model(t5_lab: Lab, requested: dict[str, Any]) -> None:
    check(t5_lab, requested)


@pytest.mark.full
@LONG
@given(requested=combination())
def test_many_random_combinations(lab: Lab, requested: dict[str, Any]) -> None:
    check(lab, requested)


@pytest.mark.full
@settings(LONG, max_examples=500)
@given(requested=combination())
def test_many_random_combinations_on_an_encoder_decoder_model(t5_lab: Lab, requested: dict[str, Any]) -> None:
    check(t5_lab, requested)


@pytest.fixture(scope="module", params=["twin", "foreigner"])
def drafted_lab(
    request: pytest.FixtureRequest, llama: LoadedModel, twin: LoadedModel, foreigner: LoadedModel
) -> Iterator[Lab]:
    """A model with a draft beside it, of its own tokenizer or of another."""
    for lab in laboratory(llama=llama, twin=twin, foreigner=foreigner):
        assert lab.engine.load_draft(request.param).finished.wait(60)
        yield lab


def with_drafting() -> st.SearchStrategy[dict[str, Any]]:
    """A combination in which something about drafting is set."""
    names = [row.name for row in TABLE if row.group is Group.ASSISTED and row.name != "is_assistant"]
    one = st.sampled_from(names).flatmap(lambda name: st.fixed_dictionaries({name: values_of(BY_NAME[name])}))
    return st.tuples(combination(), one).map(lambda both: both[0] | both[1])


@settings(QUICK, max_examples=20)
@given(requested=with_drafting())
def test_a_random_combination_with_a_draft(drafted_lab: Lab, requested: dict[str, Any]) -> None:
    check(drafted_lab, requested)


@pytest.mark.full
@settings(LONG, max_examples=400)
@given(requested=with_drafting())
def test_many_random_combinations_with_a_draft(drafted_lab: Lab, requested: dict[str, Any]) -> None:
    check(drafted_lab, requested)


CONVERTED = [
    ("temperature", 1, 1.0),
    ("temperature", "0.5", 0.5),
    ("top_k", 40.0, 40),
    ("top_k", "40", 40),
    ("do_sample", "true", True),
    ("top_p", 1, 1.0),
    ("stop_strings", "end", ["end"]),
    ("num_beams", "2", 2),
    ("max_time", "3", 3.0),
    ("sequence_bias", '[["hello", 2]]', None),
]


@pytest.mark.parametrize(("name", "sent", "effective"), CONVERTED)
def test_a_value_of_another_type_is_converted_when_that_is_exact(
    lab: Lab, name: str, sent: Any, effective: Any
) -> None:
    reply = lab.reply(max_new_tokens=2, **{name: sent})
    assert effective is None or reply.effective[name] == effective
    assert effective is None or type(reply.effective[name]) is type(effective)


REFUSED = [
    ("temperature", math.nan),
    ("temperature", math.inf),
    ("temperature", "1e999"),
    ("temperature", True),
    ("temperature", None),
    ("top_k", True),
    ("top_k", 40.5),
    ("top_k", "forty"),
    ("do_sample", 1),
    ("num_beams", 10**30),
    ("seed", -1),
    ("stop_strings", [""]),
    ("bad_words_ids", [[]]),
    ("eos_token_id", [99999]),
    ("no_such_parameter", 1),
]


@pytest.mark.parametrize(("name", "sent"), REFUSED, ids=str)
def test_what_would_lose_something_is_refused_by_name(lab: Lab, name: str, sent: Any) -> None:
    reply = lab.ask(**{name: sent})
    assert reply.status is RunStatus.FAILED
    assert reply.error.startswith(f"{name}: ")
