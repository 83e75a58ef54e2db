"""Replies of a batch held against single runs: the first difference is that of the real single run, and nobody has to wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from app.conversation import RunStatus
from app.engine.batch.alone import AloneCheck
from app.engine.batch.claims import Alone, Claim, agreement, claim_of
from app.engine.batch.steps import LibraryTogether
from app.engine.engine import Engine
from app.engine.events import Ended
from app.errors import Cancelled
from app.insight.replay import request_for as replay_of
from app.models.loading import LoadedModel, load_model
from app.models.options import LoadOptions, Quantization
from app.settings import Settings
from tests.engine.conftest import OneModel, request_for
from tests.models.tiny import tiny_llama

PLAIN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_new_tokens": 40, "min_new_tokens": 40}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> LoadedModel:
    folder = tiny_llama(tmp_path_factory.mktemp("alone") / "precise")
    options = LoadOptions(quantization=Quantization("none", compute_dtype="float32"))
    return load_model(str(folder), Settings(cache=shared_cache), options=options)


@pytest.fixture
def engine(models: OneModel) -> Iterator[Engine]:
    """Without the fast step, which is exact."""
    made = Engine(models, Settings(prefill_chunk=16, fast_step=False))
    assert made.load("tiny").finished.wait(60)
    yield made
    made.close()


@pytest.fixture
def inexact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side, logits come out a little different."""
    stock, chance = LibraryTogether.next, torch.Generator().manual_seed(0)

    def noisy(self: LibraryTogether, tokens: Any) -> torch.Tensor:
        logits = stock(self, tokens)
        return logits + 0.3 * torch.randn(logits.shape, generator=chance)

    monkeypatch.setattr(LibraryTogether, "next", noisy)


def together(engine: Engine, seeds: range = range(4)) -> list[Ended]:
    question = request_for("hello there")
    requests = [replace(request_for(requested=PLAIN | {"seed": seed}), messages=question.messages) for seed in seeds]
    return [run.result(60) for run in engine.submit_together(requests)]


def claims(ends: list[Ended]) -> dict[str, Claim]:
    return {
        end.run.id: claim_of(replay_of(end.run), end.run.output_ids, end.run.model_fingerprint.get("name"))
        for end in ends
    }


def check(engine: Engine, ends: list[Ended], told: list[tuple[str, Alone]] | None = None) -> AloneCheck:
    heard: list[tuple[str, Alone]] = [] if told is None else told
    return engine.check_alone(claims(ends), lambda run_id, found: heard.append((run_id, found)))


def test_the_same_arithmetic_agrees_at_every_token(engine: Engine) -> None:
    ends = together(engine)
    told: list[tuple[str, Alone]] = []
    job = check(engine, ends, told)
    assert job.finished.wait(60)
    assert job.error is None
    assert [run_id for run_id, _ in told] == [end.run.id for end in ends]
    assert all(found == Alone(40, 40) for _, found in told)
    assert told[0][1].share == 1.0


@pytest.mark.usefixtures("inexact")
def test_the_first_difference_is_that_of_the_single_run(engine: Engine) -> None:
    ends = together(engine)
    job = check(engine, ends)
    assert job.finished.wait(60)
    assert any(found.parts_at is not None for found in job.found.values())
    for end in ends:
        found, ids = job.found[end.run.id], end.run.output_ids
        single = engine.submit(replace(replay_of(end.run), places=())).result(60).run.output_ids
        first = next((at for at, (a, b) in enumerate(zip(ids, single, strict=True)) if a != b), None)
        assert found.parts_at == first
        assert found.other == (None if first is None else single[first])
        assert found.tokens == 40
        assert 0.5 < found.share <= 1


def test_a_check_makes_way_within_a_token_and_goes_on_afterwards(engine: Engine, tiny: LoadedModel) -> None:
    ends = together(engine)
    submitted: list[Any] = []
    steps: list[int] = []

    def interrupt(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        steps.append(kwargs["input_ids"].shape[1])
        if len(steps) == 50:
            submitted.append(engine.submit(request_for(requested={"max_new_tokens": 3, "seed": 1})))

    hook = tiny.model.register_forward_pre_hook(interrupt, with_kwargs=True)
    job = check(engine, ends)
    assert job.finished.wait(60)
    hook.remove()
    (run,) = submitted
    assert run.result(0).run.status is RunStatus.DONE
    assert steps[50] > 1, "the next forward reads the prompt of whoever was waiting"
    assert all(found == Alone(40, 40) for found in job.found.values())
    assert len(job.found) == 4


def test_two_checks_don_t_hold_each_other_up(engine: Engine) -> None:
    ends = together(engine)
    first, second = check(engine, ends[:2]), check(engine, ends[2:])
    assert first.finished.wait(60)
    assert second.finished.wait(60)
    assert len(first.found) == len(second.found) == 2


def test_a_cancelled_check_and_a_closing_engine_end_it(engine: Engine, tiny: LoadedModel) -> None:
    ends = together(engine)
    jobs: list[AloneCheck] = []

    def cancel(_module: Any, _args: Any) -> None:
        if jobs:
            jobs[0].cancelled.set()

    hook = tiny.model.register_forward_pre_hook(cancel)
    jobs.append(check(engine, ends))
    assert jobs[0].finished.wait(60)
    hook.remove()
    assert len(jobs[0].found) < 4
    assert isinstance(jobs[0].error, Cancelled)
    engine.close()
    late = check(engine, ends)
    assert late.finished.wait(1)
    assert not late.found


def test_replies_of_another_model_are_left_out(engine: Engine) -> None:
    ends = together(engine, range(2))
    known = claims(ends)
    known[ends[0].run.id] = replace(known[ends[0].run.id], model="another")
    job = engine.check_alone(known, lambda _run_id, _found: None)
    assert job.finished.wait(60)
    assert job.left_out == {ends[0].run.id}
    assert list(job.found) == [ends[1].run.id]


def test_a_reply_is_told_where_it_parts() -> None:
    assert agreement([1, 2, 3, 4], [1, 2, 7, 4]) == Alone(4, 3, 2, 7)
    assert agreement([1, 2, 3, 4], [1, 2, 7, 4]).share == 0.75
    assert agreement([], []).share == 1.0


@pytest.fixture(autouse=True)
def _quiet(engine: Engine) -> Iterator[None]:
    """Every test leaves an engine that has nothing to do."""
    yield
    assert engine.queue() == ()
