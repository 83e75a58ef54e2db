"""Guesses in the library's own loop: their gain is told, who loses rests for some replies, and a replay takes the way it took before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.conversation import Run, RunStatus
from app.engine.engine import Engine
from app.engine.speculation.gains import FIRST, LEAST_S, LONGEST, LOOKUP, LibraryGains
from app.insight.replay import request_for as replay_of
from app.settings import Settings
from tests.engine.conftest import request_for
from tests.engine.test_fast_step import load
from tests.models.tiny import tiny_llama
from tests.proofs.conftest import Shelf

ASKED: dict[str, Any] = {
    "temperature": 0,
    "max_new_tokens": 40,
    "min_new_tokens": 40,
    "prompt_lookup_num_tokens": 4,
    "seed": 1,
}


@pytest.fixture
def engine(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Without the fast step, as on a machine or for a model that it doesn't serve; every moment lost counts."""
    monkeypatch.setattr("app.engine.speculation.gains.LEAST_S", 0.0)
    shelf = Shelf(
        main=load(tiny_llama(tmp_path / "main"), shared_cache),
        other=load(tiny_llama(tmp_path / "other", seed=7), shared_cache),
    )
    engine = Engine(shelf, Settings(fast_step=False, read_ahead=False))
    assert engine.load("main").finished.wait(60)
    yield engine
    engine.close()


def reply(engine: Engine, **more: Any) -> Run:
    run = engine.submit(request_for("one two one two one two one", requested={**ASKED, **more})).result(60).run
    assert run.status is RunStatus.DONE, run.error
    return run


def machine(engine: Engine, step: float) -> None:
    """One on which a step without guesses takes so many seconds."""
    for _ in range(9):
        engine.held.beside.decoding.gains.took(step)


def lookup(run: Run) -> Any:
    return run.effective["prompt_lookup_num_tokens"]


def test_what_guesses_gained_is_told(engine: Engine) -> None:
    run = reply(engine)
    assert (run.stats.drafted_by, run.stats.new_tokens) == (LOOKUP, 40)
    assert run.stats.gain
    assert 0 < run.stats.passes < 40
    assert reply(engine, prompt_lookup_num_tokens=0).stats.drafted_by is None


def test_guesses_that_lose_rest_for_some_replies_and_say_why(engine: Engine) -> None:
    machine(engine, 1e-6)
    lost = reply(engine)
    assert lookup(lost) == 4
    assert lost.stats.gain
    assert lost.stats.gain < 0.5
    resting = [reply(engine) for _ in range(FIRST)]
    assert [lookup(run) for run in resting] == [0] * FIRST
    assert {run.stats.drafted_by for run in resting} == {None}
    assert "so it rests" in resting[0].explained["prompt_lookup_num_tokens"]["reason"]
    assert lookup(reply(engine)) == 4, "and are tried again"


def test_guesses_that_gain_go_on(engine: Engine) -> None:
    machine(engine, 10.0)
    assert [lookup(reply(engine)) for _ in range(3)] == [4, 4, 4]


def test_a_draft_that_loses_rests_too(engine: Engine) -> None:
    job = engine.load_draft("other")
    assert job.finished.wait(60)
    machine(engine, 1e-6)
    runs = [reply(engine, prompt_lookup_num_tokens=0) for _ in range(2)]
    assert [run.stats.drafted_by for run in runs] == ["other", None]
    assert runs[1].output_ids == runs[0].output_ids
    assert "so it rests" in runs[1].explained["num_assistant_tokens"]["reason"]


def test_a_replay_guesses_as_the_reply_did_whoever_rests_now(engine: Engine) -> None:
    machine(engine, 1e-6)
    sampled = {"temperature": 1.0, "do_sample": True}
    guessed, plain = reply(engine, **sampled), reply(engine, **sampled)
    assert [lookup(guessed), lookup(plain)] == [4, 0]
    for run in (guessed, plain):
        again = engine.submit(replay_of(run)).result(60).run
        assert again.output_ids == run.output_ids
        assert lookup(again) == lookup(run)


def test_a_reply_written_without_a_draft_is_repeated_without_it(engine: Engine) -> None:
    plain = reply(engine, temperature=1.0, do_sample=True, prompt_lookup_num_tokens=0)
    assert engine.load_draft("other").finished.wait(60)
    again = engine.submit(replay_of(plain)).result(60).run
    assert (again.output_ids, again.stats.drafted_by) == (plain.output_ids, None)


def test_who_goes_on_losing_rests_for_longer_and_nobody_minds_a_moment() -> None:
    gains = LibraryGains()
    gains.saw(LOOKUP, 0.5, 1.9 * LEAST_S)
    assert gains.resting(LOOKUP) is None
    rests = []
    for _ in range(6):
        gains.saw(LOOKUP, 0.5, 2.1 * LEAST_S)
        rests.append(sum(1 for _ in range(1000) if gains.resting(LOOKUP)))
    assert rests == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, LONGEST, LONGEST]
    gains.saw(LOOKUP, 2.0, 1.0)
    gains.saw(LOOKUP, 0.5, 100.0)
    assert sum(1 for _ in range(1000) if gains.resting(LOOKUP)) == FIRST
    assert gains.resting("a draft") is None
