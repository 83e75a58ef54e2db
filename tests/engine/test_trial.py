"""When the fast step is tried: right after a load that nobody waits for, else behind the first token, which nobody is kept waiting for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app.conversation import FAST, RunStatus
from app.engine.engine import Engine
from app.engine.fast import proof
from app.engine.fast.decoding import Decoding
from app.engine.run import LiveRun
from app.insight.replay import request_for as replay_of
from app.models.loading import LoadedModel
from app.settings import Settings
from tests.engine.conftest import request_for
from tests.engine.test_fast_step import load
from tests.models.tiny import tiny_llama
from tests.proofs.conftest import Shelf


@pytest.fixture
def engine(tmp_path: Path, shared_cache: Path) -> Iterator[Engine]:
    """Nothing is loaded yet."""
    made = Engine(Shelf(main=load(tiny_llama(tmp_path / "m"), shared_cache)), Settings(read_ahead=False))
    yield made
    made.close()


@pytest.fixture
def trials(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunStatus, ...]]:
    """How far the engine's runs were at each trial."""
    seen: list[tuple[RunStatus, ...]] = []
    stock = proof.decoding_for

    def tried(loaded: LoadedModel, *, wanted: bool = True) -> Decoding:
        seen.append(tuple(run.status for run in engine.queue()))
        return stock(loaded, wanted=wanted)

    monkeypatch.setattr(proof, "decoding_for", tried)
    return seen


def asked(engine: Engine, **more: Any) -> LiveRun:
    return engine.submit(request_for(model="main", requested={"max_new_tokens": 12, "seed": 1, **more}))


def test_where_nobody_waits_it_is_tried_right_after_the_load(engine: Engine, trials: list[Any]) -> None:
    assert engine.load("main").finished.wait(60)
    assert trials == [()]
    assert engine.held.beside.trial.known.step is not None
    assert asked(engine).result(60).run.model_fingerprint["decode"] == FAST
    assert len(trials) == 1


def test_a_message_that_waits_has_its_first_token_before(engine: Engine, trials: list[Any]) -> None:
    ended = asked(engine).result(60)
    assert trials == [(RunStatus.GENERATING,)]
    assert ended.run.model_fingerprint["decode"] == FAST
    assert ended.run.stats.passes > 0
    again = asked(engine).result(60)
    assert len(trials) == 1
    assert (again.run.output_ids, again.trace) == (ended.run.output_ids, ended.trace)
    replayed = engine.submit(replay_of(ended.run)).result(60)
    assert replayed.run.output_ids == ended.run.output_ids


def test_a_reply_of_one_token_needs_no_trial(engine: Engine, trials: list[Any]) -> None:
    first = asked(engine, max_new_tokens=1).result(60).run
    assert (len(first.output_ids), trials) == (1, [])
    assert engine.submit(replay_of(first)).result(60).run.output_ids == first.output_ids
    assert asked(engine).result(60).run.model_fingerprint["decode"] == FAST


def test_prompt_lookup_has_to_know_before_the_first_token(engine: Engine, trials: list[Any]) -> None:
    ended = asked(engine, prompt_lookup_num_tokens=4).result(60)
    assert trials == [(RunStatus.PREFILL,)]
    assert ended.run.stats.drafted_by == "prompt lookup"


def test_a_trial_that_fails_leaves_the_reply_to_the_library(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "compare", lambda *_: proof.Agreement(0.5, 1.0))
    run = asked(engine).result(60).run
    assert run.status is RunStatus.DONE
    assert run.model_fingerprint["decode"] == "library (only 50% agreement)"


def test_the_trial_is_not_in_the_speed_of_the_reply(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stock, long = proof.compare, 0.5

    def slow(*given: Any) -> proof.Agreement:
        Event().wait(long)
        return stock(*given)

    monkeypatch.setattr(proof, "compare", slow)
    stats = asked(engine).result(60).run.stats
    assert stats.tokens_per_s is not None
    assert stats.tokens_per_s > (stats.new_tokens - 1) / long
