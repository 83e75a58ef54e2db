"""Replies computed side by side: each is what its own settings and random numbers make it, whatever becomes of its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import torch

from app.conversation import FinishReason, RunStatus
from app.engine.batch import together
from app.engine.batch.fits import why_not
from app.engine.engine import Engine
from app.engine.events import Ended, StatusChanged
from app.engine.run import LiveRun, RunRequest
from app.engine.trace import Trace
from app.insight.replay import request_for as replay_of
from app.models.loading import LoadedModel, load_model
from app.models.options import LoadOptions, Quantization
from app.parameters.resolve import resolve
from app.settings import Settings
from tests.engine.conftest import OneModel, request_for
from tests.models.tiny import tiny_ernie_moe, tiny_llama

PLAIN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 3, "max_new_tokens": 24}
TEMPERATURES = [0, 0.3, 0.5, 0.7, 1.0, 1.3, 1.6, 2.0]
QUESTION = request_for("What is the answer to all of this?")


AtStep = Callable[[int, Callable[[], object]], None]


@dataclass
class Started:
    """Runs that were submitted, for the engine's thread, which may be quicker than the test's."""

    _given: Event = field(default_factory=Event)
    _runs: tuple[LiveRun, ...] = ()

    def take(self, runs: tuple[LiveRun, ...]) -> tuple[LiveRun, ...]:
        self._runs = runs
        self._given.set()
        return runs

    @property
    def runs(self) -> tuple[LiveRun, ...]:
        assert self._given.wait(60)
        return self._runs


def stop(*runs: LiveRun) -> None:
    for run in runs:
        run.cancel()


def settings(*, fast: bool = False) -> Settings:
    return Settings(prefill_chunk=16, fast_step=fast)


def engine_with(loaded: LoadedModel, *, fast: bool) -> Engine:
    models = OneModel(loaded)
    models.gate.set()
    engine = Engine(models, settings(fast=fast))
    assert engine.load("tiny").finished.wait(60)
    return engine


def asking(**requested: Any) -> RunRequest:
    return replace(request_for(requested=PLAIN | requested), messages=QUESTION.messages)


def ends_of(runs: tuple[LiveRun, ...]) -> list[Ended]:
    return [run.result(60) for run in runs]


def alone(engine: Engine, request: RunRequest) -> Ended:
    return engine.submit(replace(request, run_id=request_for().run_id)).result(60)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> LoadedModel:
    """In float32: other ways of computing the same give the same tokens."""
    folder = tiny_llama(tmp_path_factory.mktemp("batch") / "precise")
    options = LoadOptions(quantization=Quantization("none", compute_dtype="float32"))
    return load_model(str(folder), Settings(cache=shared_cache), options=options)


@pytest.fixture(scope="module")
def four_bit(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> LoadedModel:
    folder = tiny_llama(tmp_path_factory.mktemp("batch") / "coarse")
    return load_model(str(folder), Settings(cache=shared_cache))


@pytest.fixture(params=["library", "fast"])
def engine(tiny: LoadedModel, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Once with the library's forward, once with the fast step (where a test counts forwards, that is the library's too)."""
    made = engine_with(tiny, fast=request.param == "fast")
    yield made
    made.close()


@pytest.fixture
def forwards(tiny: LoadedModel) -> Iterator[list[tuple[int, int]]]:
    """Rows and tokens of every forward pass."""
    seen: list[tuple[int, int]] = []

    def note(_module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        rows, tokens = (kwargs["input_ids"] if "input_ids" in kwargs else args[0]).shape
        seen.append((rows, tokens))

    hook = tiny.model.register_forward_pre_hook(note, with_kwargs=True)
    yield seen
    hook.remove()


@pytest.fixture
def at_step(tiny: LoadedModel) -> Iterator[AtStep]:
    """Have something done in the engine's thread before the forward that computes the new token of this number."""
    hooks = []

    def arrange(step: int, action: Callable[[], object]) -> None:
        seen = [0]

        def count(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
            seen[0] += kwargs["input_ids"].shape[1] == 1
            if seen[0] == step:
                action()

        hooks.append(tiny.model.register_forward_pre_hook(count, with_kwargs=True))

    yield arrange
    for hook in hooks:
        hook.remove()


def test_eight_temperatures_are_one_batch_and_each_is_what_it_would_be_alone(
    engine: Engine, forwards: list[tuple[int, int]]
) -> None:
    requests = [asking(temperature=t) for t in TEMPERATURES]
    ends = ends_of(engine.submit_together(requests))
    assert [shape for shape in forwards if shape[1] == 1] == [(8, 1)] * 23
    assert sum(tokens for rows, tokens in forwards if rows == 1) == len(ends[0].run.prompt_ids)
    assert len({end.text for end in ends}) > 4
    for request, end in zip(requests, ends, strict=True):
        single = alone(engine, request)
        assert end.run.status is RunStatus.DONE, end.run.error
        assert end.run.output_ids == single.run.output_ids
        assert end.text == single.text
        assert end.run.effective == single.run.effective
        assert end.run.seed == single.run.seed == 3
        assert end.run.prompt_ids == single.run.prompt_ids
        assert end.run.stats.new_tokens == 24
        assert end.trace is not None
        assert single.trace is not None
        mine, other = Trace.unpack(end.trace), Trace.unpack(single.trace)
        assert mine.stages == other.stages
        assert mine.draws.tolist() == pytest.approx(other.draws.tolist(), nan_ok=True)
        assert mine.raw == pytest.approx(other.raw, abs=1e-3)


def test_replies_that_end_leave_and_disturb_nobody(engine: Engine, forwards: list[tuple[int, int]]) -> None:
    lengths = [24, 5, 16, 1, 5]
    requests = [asking(max_new_tokens=n, seed=n) for n in lengths]
    ends = ends_of(engine.submit_together(requests))
    assert [len(end.run.output_ids) for end in ends] == lengths
    assert [rows for rows, tokens in forwards if tokens == 1] == [4] * 4 + [2] * 11 + [1] * 8
    for request, end in zip(requests, ends, strict=True):
        assert end.run.output_ids == alone(engine, request).run.output_ids


@pytest.mark.parametrize("model", ["tiny", "four_bit"])
def test_every_reply_is_repeated_to_the_bit_from_its_record_alone(model: str, request: pytest.FixtureRequest) -> None:
    engine = engine_with(request.getfixturevalue(model), fast=False)
    requests = [asking(max_new_tokens=n, seed=n, min_new_tokens=n) for n in (24, 5, 16, 9, 2, 1)]
    ends = ends_of(engine.submit_together(requests))
    places = [end.run.model_fingerprint.get("batch") for end in ends]
    assert places[0] == [[1, 5, 0], [2, 4, 0], [5, 3, 0], [9, 2, 0], [16, 1, 0]]
    assert places[2] == [[1, 5, 2], [2, 4, 2], [5, 3, 1], [9, 2, 1]]
    assert places[5] is None
    for end in ends[:5]:
        again = engine.submit(replay_of(end.run)).result(60)
        assert again.run.output_ids == end.run.output_ids
        assert again.trace == end.trace
        assert again.run.model_fingerprint == end.run.model_fingerprint
    assert engine.submit(replay_of(ends[5].run)).result(60).run.output_ids == ends[5].run.output_ids
    engine.close()


def test_with_the_fast_step_each_gets_the_very_numbers_that_it_would_get_alone(four_bit: LoadedModel) -> None:
    engine = engine_with(four_bit, fast=True)
    assert engine.exact_together
    requests = [asking(max_new_tokens=n, seed=n, min_new_tokens=n, temperature=0.2 * n) for n in (24, 5, 16, 9, 2, 7)]
    for request, end in zip(requests, ends_of(engine.submit_together(requests)), strict=True):
        single = alone(engine, request)
        assert end.run.output_ids == single.run.output_ids
        assert end.trace == single.trace
        assert end.run.model_fingerprint == single.run.model_fingerprint
        assert end.run.model_fingerprint["decode"] == "fast step"
        assert engine.submit(replay_of(end.run)).result(60).trace == end.trace
    engine.close()


def test_experts_are_side_by_side_where_that_is_exact(tmp_path: Path, shared_cache: Path) -> None:
    loaded = load_model(str(tiny_ernie_moe(tmp_path / "moe")), Settings(cache=shared_cache))
    requests = [asking(seed=n) for n in range(3)]
    for fast in (True, False):
        engine = engine_with(loaded, fast=fast)
        assert engine.exact_together is fast
        for request, end in zip(requests, ends_of(engine.submit_together(requests)), strict=True):
            single = alone(engine, request)
            assert end.trace == single.trace
            assert "batch" not in end.run.model_fingerprint
        engine.close()


def test_each_reply_has_its_own_settings_stops_and_form(engine: Engine) -> None:
    plain = alone(engine, asking())
    free, banned = plain.text, plain.run.output_ids[0]
    first = free.strip()[2:5]
    different: list[dict[str, Any]] = [
        {},
        {"stop_strings": [first]},
        {"bad_words_ids": [[banned]]},
        {"output_format": {"kind": "choices", "choices": ["yes", "no"]}},
        {"no_repeat_ngram_size": 1, "repetition_penalty": 1.5},
        {"trace_top_k": 0},
        {"watermarking_config": {"kind": "greenlist"}},
    ]
    ends = ends_of(engine.submit_together([asking(**more) for more in different]))
    assert [end.run.error for end in ends] == [None] * len(ends)
    assert ends[0].text == free
    assert ends[1].run.finish_reason is FinishReason.STOP_STRING
    assert ends[1].text == free[: free.index(first)]
    assert banned not in ends[2].run.output_ids
    assert ends[3].text in ("yes", "no")
    assert len(set(ends[4].run.output_ids)) == len(ends[4].run.output_ids)
    assert ends[5].trace is None
    assert ends[5].run.output_ids == ends[0].run.output_ids
    for more, end in zip(different, ends, strict=True):
        assert end.run.output_ids == alone(engine, asking(**more)).run.output_ids


def test_the_prompt_is_read_once_and_what_was_kept_of_it_is_used(
    engine: Engine, forwards: list[tuple[int, int]]
) -> None:
    long = request_for("word " * 60, requested=PLAIN)
    first = engine.submit(long).result(60)
    forwards.clear()
    requests = [replace(request_for(requested=PLAIN | {"seed": n}), messages=long.messages) for n in range(4)]
    ends = ends_of(engine.submit_together(requests))
    read = sum(tokens for rows, tokens in forwards if rows == 1)
    assert read == len(first.run.prompt_ids) - ends[0].run.stats.reused_tokens < 20
    assert {end.run.stats.reused_tokens for end in ends} == {ends[0].run.stats.reused_tokens}


def test_one_reply_is_stopped_within_a_token_and_the_others_go_on(engine: Engine, at_step: AtStep) -> None:
    started = Started()
    at_step(5, lambda: stop(started.runs[1]))
    ends = ends_of(started.take(engine.submit_together([asking(seed=n) for n in range(4)])))
    assert ends[1].run.status is RunStatus.STOPPED
    assert len(ends[1].run.output_ids) == 6
    assert ends[1].text == alone(engine, asking(seed=1, max_new_tokens=6)).text
    for n in (0, 2, 3):
        assert ends[n].run.output_ids == alone(engine, asking(seed=n)).run.output_ids


def test_all_stopped_at_once_keep_what_they_have(
    engine: Engine, forwards: list[tuple[int, int]], at_step: AtStep
) -> None:
    started = Started()
    at_step(3, lambda: stop(*started.runs))
    ends = ends_of(started.take(engine.submit_together([asking(seed=n) for n in range(4)])))
    assert [len(end.run.output_ids) for end in ends] == [4] * 4
    assert {end.run.status for end in ends} == {RunStatus.STOPPED}
    assert len([1 for _rows, tokens in forwards if tokens == 1]) == 3


def test_a_reply_that_can_not_go_on_fails_alone(engine: Engine, tiny: LoadedModel) -> None:
    nothing = list(range(tiny.facts.vocab_size))
    ends = ends_of(engine.submit_together([asking(), asking(suppress_tokens=nothing), asking(seed=9)]))
    assert ends[1].run.status is RunStatus.FAILED
    assert "every token is excluded" in str(ends[1].run.error)
    assert ends[0].run.output_ids == alone(engine, asking()).run.output_ids
    assert ends[2].run.output_ids == alone(engine, asking(seed=9)).run.output_ids


def test_a_model_that_fails_ends_every_reply_with_a_sentence_and_its_text(engine: Engine, at_step: AtStep) -> None:
    def burst() -> None:
        raise RuntimeError("the wires melted")

    at_step(4, burst)
    ends = ends_of(engine.submit_together([asking(seed=n, max_new_tokens=2 + 20 * (n > 0)) for n in range(3)]))
    assert [end.run.status for end in ends] == [RunStatus.DONE, RunStatus.FAILED, RunStatus.FAILED]
    assert "the wires melted" in str(ends[1].run.error)
    assert len(ends[2].run.output_ids) == 4
    at_step(-1, burst)
    assert ends_of(engine.submit_together([asking(), asking()]))[0].run.status is RunStatus.FAILED


def test_every_reply_streams_while_the_others_do(engine: Engine, at_step: AtStep) -> None:
    started = Started()
    seen: list[tuple[str, Ended | None]] = []
    at_step(22, lambda: seen.extend((run.text(), run.ended) for run in started.runs))
    runs = started.take(engine.submit_together([asking(seed=n) for n in range(3)]))
    ends = ends_of(runs)
    for (text, ended), end in zip(seen, ends, strict=True):
        assert text
        assert ended is None
        assert end.text.startswith(text)
    for run in runs:
        statuses = [event.status for _, event in run.read() if isinstance(event, StatusChanged)]
        assert statuses == [RunStatus.QUEUED, RunStatus.PREFILL, RunStatus.GENERATING]


def test_what_can_not_be_in_the_batch_is_computed_behind_it(engine: Engine, forwards: list[tuple[int, int]]) -> None:
    more: list[dict[str, Any]] = [{}, {"num_beams": 2, "do_sample": False}, {"seed": 5}, {"guidance_scale": 1.5}]
    ends = ends_of(engine.submit_together([asking(**each) for each in more]))
    assert [end.run.error for end in ends] == [None] * 4
    assert "several replies" in ends[2].run.model_fingerprint["decode"]
    assert "several replies" not in ends[3].run.model_fingerprint["decode"]
    assert (2, 1) in forwards
    for each, end in zip(more, ends, strict=True):
        assert end.run.output_ids == alone(engine, asking(**each)).run.output_ids


def test_other_prompts_are_another_batch(engine: Engine) -> None:
    other = request_for("Quite another question", requested=PLAIN)
    requests = [asking(), other, asking(seed=4), replace(other, run_id=request_for().run_id)]
    ends = ends_of(engine.submit_together(requests))
    assert ends[1].text == ends[3].text
    for request, end in zip(requests, ends, strict=True):
        assert end.run.output_ids == alone(engine, request).run.output_ids


def test_where_memory_holds_few_replies_there_are_several_batches(
    engine: Engine, forwards: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "rows_that_fit", lambda _row: 3)
    requests = [asking(seed=n) for n in range(7)]
    ends = ends_of(engine.submit_together(requests))
    assert [rows for rows, tokens in forwards if tokens == 1] == [3] * 46 + [1] * 23
    for request, end in zip(requests, ends, strict=True):
        assert end.run.output_ids == alone(engine, request).run.output_ids


def test_memory_for_one_reply_is_always_tried(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "free_bytes", lambda _options: 0)
    ends = ends_of(engine.submit_together([asking(), asking(seed=4)]))
    assert {end.run.status for end in ends} == {RunStatus.DONE}
    for seed, end in ((3, ends[0]), (4, ends[1])):
        assert end.run.model_fingerprint.get("batch") in (None, [[1, 1, 0]])
        assert end.run.output_ids == alone(engine, asking(seed=seed)).run.output_ids


def test_a_group_waits_as_one_and_any_of_it_can_leave(models: OneModel) -> None:
    models.gate.clear()
    engine = Engine(models, settings())
    load = engine.load("tiny")
    before = engine.submit(asking())
    runs = engine.submit_together([asking(seed=n) for n in range(3)])
    behind = engine.submit(asking(seed=8))
    assert engine.queue() == (before, *runs, behind)
    assert "Place 4" in str(behind.read()[-1][1])
    runs[1].cancel()
    assert runs[1].ended is not None
    models.gate.set()
    assert load.finished.wait(60)
    ends = ends_of(runs)
    assert [end.run.status for end in ends] == [RunStatus.DONE, RunStatus.STOPPED, RunStatus.DONE]
    assert ends[2].run.output_ids != ends[0].run.output_ids
    assert behind.result(60).run.status is RunStatus.DONE
    engine.close()
    late = engine.submit_together([asking(), asking()])
    assert {run.result(1).run.status for run in late} == {RunStatus.STOPPED}


def test_closing_stops_a_batch_and_keeps_its_texts(models: OneModel, at_step: AtStep) -> None:
    engine = Engine(models, settings())
    assert engine.load("tiny").finished.wait(60)
    closing, started = Thread(target=engine.close), Started()

    def close() -> None:
        closing.start()
        assert started.runs[0].cancelled.wait(60)

    at_step(4, close)
    ends = ends_of(started.take(engine.submit_together([asking(seed=n, max_new_tokens=200) for n in range(2)])))
    closing.join()
    assert {end.run.status for end in ends} == {RunStatus.STOPPED}
    assert all(end.text for end in ends)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, None),
        ({"temperature": 0}, None),
        ({"output_format": {"kind": "regex", "pattern": "a+"}}, None),
        ({"num_beams": 2}, "beam search"),
        ({"num_return_sequences": 2}, "several replies itself"),
        ({"guidance_scale": 2.0}, "guidance"),
        ({"use_cache": False}, "use_cache"),
        ({"cache_implementation": "static"}, "cache_implementation"),
        ({"max_time": 3.0}, "max_time"),
        ({"output_logits": True}, "output_logits"),
        ({"prompt_lookup_num_tokens": 3, "temperature": 0}, "prompt_lookup_num_tokens"),
    ],
)
def test_what_keeps_a_reply_out_of_a_batch_is_said(tiny: LoadedModel, asked: dict[str, Any], words: str | None) -> None:
    reason = why_not(resolve(PLAIN | asked, tiny.facts).values, tiny.facts)
    assert (reason is None) if words is None else (words in str(reason))


def test_models_that_are_computed_otherwise_are_kept_out(tiny: LoadedModel) -> None:
    values = resolve(PLAIN, tiny.facts).values
    assert "encoder" in str(why_not(values, replace(tiny.facts, is_encoder_decoder=True)))
    assert "draft model" in str(why_not(values, replace(tiny.facts, draft_model="small")))
    assert "experts" in str(why_not(values, replace(tiny.facts, num_experts=8)))
    assert why_not(values, replace(tiny.facts, num_experts=8), exact=True) is None


def test_no_batch_changes_a_number_of_the_model(engine: Engine, tiny: LoadedModel) -> None:
    before = {name: value.clone() for name, value in tiny.model.state_dict().items()}
    ends_of(engine.submit_together([asking(), asking(seed=4)]))
    assert all(torch.equal(before[name], value) for name, value in tiny.model.state_dict().items())
