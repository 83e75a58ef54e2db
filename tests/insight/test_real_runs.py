"""What-if end to end: replies really recorded by the engine, and really run again with the other settings and the same seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversation import RunStatus
from app.engine.engine import Engine
from app.engine.events import Ended
from app.engine.trace import Trace
from app.insight.cutoffs import UNKNOWN
from app.insight.effects import MOVABLE, effects
from app.insight.recorded import Recorded
from tests.engine.conftest import engine, models, request_for, tiny

__all__ = ["engine", "models", "tiny"]

TOKENS = 16
OFF: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
VALUES: dict[str, list[Any]] = {
    "temperature": [0, 0.3, 0.7, 1.0, 1.5],
    "top_k": [1, 3, 20, 50],
    "top_p": [0.3, 0.8, 0.95],
    "min_p": [0.02, 0.2],
    "typical_p": [0.5, 0.9],
    "top_h": [0.3, 0.7],
    "epsilon_cutoff": [0.001, 0.02],
    "eta_cutoff": [0.001, 0.02],
    "repetition_penalty": [0.8, 1.1, 1.5],
}
SOME = st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(VALUES[name]) for name in names})
)
ONE = st.sampled_from(sorted(VALUES)).flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(VALUES[name])))


def run(engine: Engine, requested: dict[str, Any]) -> Ended:
    ended = engine.submit(request_for(requested={"max_new_tokens": TOKENS, **requested})).result(60)
    assert ended.run.status is RunStatus.DONE, ended.run.error
    return ended


def recorded(ended: Ended) -> Recorded:
    assert ended.trace is not None
    return Recorded(ended.run, Trace.unpack(ended.trace))


def judge(engine: Engine, old: dict[str, Any], changes: dict[str, Any], seed: int, k: int) -> str:
    """Hold one prediction against a real rerun, and say what kind of claim it was."""
    first = recorded(run(engine, {**OFF, **old, "seed": seed, "trace_top_k": k}))
    prediction = first.what_if(changes)
    again = run(engine, first.request(changes)).run.output_ids
    ids = first.run.output_ids
    sure = prediction.exact_until
    if prediction.first_change is not None:
        at = prediction.first_change
        assert sure == at + 1
        assert again[:at] == ids[:at]
        assert again[at] == prediction.choice[at] != ids[at]
        return "change"
    assert again[:sure] == ids[:sure]
    if sure == len(ids):
        assert again == ids
        return "same"
    assert prediction.choice[sure] == UNKNOWN
    return "open"


def test_the_movable_parameters_are_all_tried() -> None:
    assert set(VALUES) == MOVABLE


@pytest.fixture(scope="module")
def claims() -> Counter[str]:
    return Counter()


def search(engine: Engine, claims: Counter[str], examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(old=SOME, change=ONE, seed=st.integers(0, 2**32 - 1), k=st.sampled_from([5, 20, 100]))
    def predicted(old: dict[str, Any], change: tuple[str, Any], seed: int, k: int) -> None:
        claims[judge(engine, old, dict([change]), seed, k)] += 1

    predicted()


def test_the_predicted_first_change_is_that_of_a_real_rerun(engine: Engine, claims: Counter[str]) -> None:
    search(engine, claims, 25)
    assert claims["change"] + claims["same"] >= 5, "hardly anything was claimed"


@pytest.mark.full
def test_the_predicted_first_change_is_that_of_a_real_rerun_in_many_runs(engine: Engine, claims: Counter[str]) -> None:
    search(engine, claims, 1_000)
    assert claims["change"] > 100
    assert claims["same"] > 20


def test_the_report_agrees_with_reruns_without_a_parameter(engine: Engine) -> None:
    asked = {**OFF, "top_p": 0.999999, "top_k": 3, "seed": 5, "trace_top_k": 100}
    first = recorded(run(engine, asked))
    told = {effect.name: effect for effect in effects(first.run, first.traced())}
    assert told["top_p"].mattered is False
    assert run(engine, asked | {"top_p": 1.0}).run.output_ids == first.run.output_ids
    assert told["top_k"].would_differ
    without = run(engine, asked | {"top_k": 0}).run.output_ids
    at = told["top_k"].would_differ[0]
    assert without[:at] == first.run.output_ids[:at]
    assert without[at] != first.run.output_ids[at]
