"""Eight temperatures in one batch on the built-in model: every cell replays exactly and is told how it compares with a single run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.conversation import FAST, RunStatus
from app.engine.engine import Engine
from app.engine.events import Ended
from app.engine.trace import Trace
from app.insight.replay import alone_claim
from app.insight.replay import request_for as replay_of
from app.models.loading import LoadedModel
from app.models.service import ModelService
from app.settings import Settings
from tests.engine.conftest import OneModel, request_for

TEMPERATURES = [0, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4, 2.0]
PLAIN: dict[str, Any] = {"top_p": 0.95, "seed": 11, "max_new_tokens": 16, "min_new_tokens": 16}


@pytest.fixture(scope="module")
def builtin(shared_cache: Path) -> LoadedModel:
    return ModelService(Settings(cache=shared_cache)).load("builtin")


@pytest.fixture(params=[True, False], ids=["fast step", "library"])
def engine(builtin: LoadedModel, shared_cache: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    models = OneModel(builtin)
    models.gate.set()
    made = Engine(models, Settings(cache=shared_cache, fast_step=request.param))
    assert made.load("builtin").finished.wait(120)
    yield made
    made.close()


def together(engine: Engine) -> list[Ended]:
    question = request_for("Name three colours in one short sentence.")
    requests = [
        replace(request_for(requested=PLAIN | {"temperature": t}), messages=question.messages) for t in TEMPERATURES
    ]
    ends = [run.result(300) for run in engine.submit_together(requests)]
    assert {end.run.status for end in ends} == {RunStatus.DONE}
    return ends


def test_eight_temperatures_in_one_batch(engine: Engine) -> None:
    ends = together(engine)
    assert len({end.text for end in ends}) > 3
    draws = [Trace.unpack(end.trace).draws.tolist() for end in ends[1:] if end.trace]
    assert len(draws) == 7
    assert all(row == draws[0] for row in draws), "the same random numbers in every cell"
    first, last = ends[0], ends[-1]
    for end in (first, last):
        again = engine.submit(replay_of(end.run)).result(300)
        assert again.run.output_ids == end.run.output_ids
        assert again.trace == end.trace
    if engine.exact_together:
        assert {end.run.model_fingerprint["decode"] for end in ends} == {FAST}
        assert {"batch" in end.run.model_fingerprint for end in ends} == {False}
        return
    assert [end.run.model_fingerprint["batch"][0] for end in ends] == [[1, 8, place] for place in range(8)]
    job = engine.check_alone({end.run.id: alone_claim(end.run) for end in ends[3:5]}, lambda _run_id, _found: None)
    assert job.finished.wait(300)
    assert job.error is None
    found = list(job.found.values())
    assert [alone.tokens for alone in found] == [16, 16]
    assert sum(alone.same for alone in found) >= 30
