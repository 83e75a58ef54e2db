"""A model spread over two processes writes what it writes in one, whatever is asked of it; both stop, and both end, together."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.conversation import FinishReason, RunStatus
from app.engine.engine import Engine
from app.engine.events import TextDelta
from app.engine.run import RunRequest
from app.insight.lens import Lens
from app.insight.routing import RoutingJob
from tests.distributed.conftest import InTwo, use
from tests.engine.conftest import request_for
from tests.models.tiny import tiny_ernie_moe, tiny_llama, tiny_mixtral, tiny_qwen_moe

QUESTION = "hello there, what is the time? " * 3
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"max_new_tokens": 20, "do_sample": False},
    "sampled": {"max_new_tokens": 20, "temperature": 1.0, "top_p": 0.9, "seed": 3},
    "beams": {"max_new_tokens": 10, "num_beams": 3, "num_return_sequences": 2, "do_sample": False},
    "several": {"max_new_tokens": 10, "num_return_sequences": 3, "temperature": 1.0, "seed": 4},
    "prompt lookup": {"max_new_tokens": 12, "prompt_lookup_num_tokens": 3, "do_sample": False},
    "guided": {"max_new_tokens": 8, "guidance_scale": 2.0, "negative_prompt": "cats", "seed": 1},
    "static cache": {"max_new_tokens": 8, "cache_implementation": "static", "seed": 1},
    "without a cache": {"max_new_tokens": 6, "use_cache": False, "seed": 1},
    "hidden states": {"max_new_tokens": 6, "output_hidden_states": True, "seed": 1},
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("spread") / "llama")


def written(engine: Engine, request: RunRequest) -> tuple[Any, ...]:
    """What a request gives: tokens, those of its siblings, and how it ended."""
    ended = engine.submit(request).result(120)
    assert ended.run.status is RunStatus.DONE, ended.run.error
    siblings = tuple(sibling.run.output_ids for sibling in ended.siblings)
    return ended.run.output_ids, siblings, ended.run.finish_reason


@pytest.mark.parametrize("way", WAYS)
def test_the_same_tokens_whatever_way_they_are_chosen(one: Engine, two: Engine, llama: Path, way: str) -> None:
    use(one, llama)
    use(two, llama)
    request = request_for(QUESTION, requested=WAYS[way])
    assert written(two, request) == written(one, request)


@pytest.mark.parametrize("make", [tiny_ernie_moe, tiny_mixtral, tiny_qwen_moe])
def test_mixtures_of_experts_are_spread_too(one: Engine, two: Engine, tmp_path: Path, make: Any) -> None:
    folder = make(tmp_path / "model")
    use(one, folder)
    use(two, folder)
    for asked in (WAYS["greedy"], WAYS["sampled"]):
        request = request_for(QUESTION, requested=asked)
        assert written(two, request) == written(one, request)


def test_a_draft_model_drafts_for_a_spread_one(one: Engine, two: Engine, llama: Path, tmp_path: Path) -> None:
    draft = tiny_llama(tmp_path / "draft", num_hidden_layers=1)
    request = request_for(QUESTION, requested={"max_new_tokens": 12, "do_sample": False, "num_assistant_tokens": 3})
    for engine in (one, two):
        use(engine, llama)
        job = engine.load_draft(str(draft))
        assert job.finished.wait(120)
        assert job.error is None
    try:
        assert written(two, request) == written(one, request)
    finally:
        for engine in (one, two):
            assert engine.unload_draft().finished.wait(60)


def test_several_runs_are_computed_in_one_batch(one: Engine, two: Engine, llama: Path) -> None:
    found = []
    for engine in (one, two):
        use(engine, llama)
        asked = [{"max_new_tokens": 6 + n, "seed": n, "temperature": 1.0} for n in range(3)]
        runs = engine.submit_together([request_for(QUESTION, requested=one_of) for one_of in asked])
        found.append([run.result(120).run.output_ids for run in runs])
    assert found[0] == found[1]


def test_read_prompts_are_reused_by_all_processes(two: Engine, llama: Path) -> None:
    use(two, llama)
    two.held.blocks.clear()
    request = request_for(QUESTION, requested=WAYS["sampled"])
    first, again = (two.submit(request_for(QUESTION, requested=WAYS["sampled"])).result(120).run for _ in range(2))
    assert request.requested == first.requested
    assert (first.stats.reused_tokens, first.output_ids) == (0, again.output_ids)
    assert again.stats.reused_tokens > 0


def test_kept_blocks_make_room_in_all_processes(two: Engine, llama: Path) -> None:
    use(two, llama)
    two.held.blocks.clear()
    before = two.held.blocks.capacity
    two.held.blocks.capacity = 40_000
    try:
        for text in ("one " * 40, "two " * 40, "one " * 40, "three " * 40):
            ended = two.submit(request_for(text, requested={"max_new_tokens": 2, "seed": 1})).result(120)
            assert ended.run.status is RunStatus.DONE, ended.run.error
        assert 0 < two.held.blocks.used_bytes <= 40_000
    finally:
        two.held.blocks.capacity = before


def test_a_text_is_scored_by_both(one: Engine, two: Engine, llama: Path) -> None:
    use(one, llama)
    use(two, llama)
    traces = []
    for engine in (one, two):
        job = engine.score(list(range(3, 60)))
        assert job.finished.wait(120)
        assert job.trace is not None, job.error
        traces.append(job.trace)
    assert traces[1].raw_probability == pytest.approx(traces[0].raw_probability, abs=1e-4)


def test_the_inside_is_looked_at_in_both(one: Engine, two: Engine, tmp_path: Path) -> None:
    """Questions that compute with a part of the model only: its decoder without the head, its head without the rest."""
    folder = tiny_ernie_moe(tmp_path / "ernie", seed=1)
    found: list[Any] = []
    for engine in (one, two):
        use(engine, folder)
        asked = {"max_new_tokens": 4, "seed": 1, "output_hidden_states": True}
        run = engine.submit(request_for("hi", requested=asked))
        ids = run.result(60).run.output_ids
        routing = RoutingJob(ids=(3, 4, *ids), start=2)
        lens = Lens(hidden=run.inside.hidden_states[0])
        for question in (routing, lens):
            engine.ask(question)
            assert question.finished.wait(60)
            assert question.error is None
        assert routing.routing
        found.append((ids, routing.routing.choice.tolist(), [[guess.id for guess in layer] for layer in lens.layers]))
    assert found[0] == found[1]


def test_stop_is_heard_and_the_next_reply_is_right(one: Engine, two: Engine, llama: Path) -> None:
    use(one, llama)
    use(two, llama)
    asked = {"max_new_tokens": 400, "min_new_tokens": 400, "seed": 5}
    run = two.submit(request_for("go on", requested=asked))
    for _, event in run.events():
        if isinstance(event, TextDelta):
            run.cancel()
            break
    ended = run.result(60)
    assert ended.run.finish_reason is FinishReason.STOPPED
    whole = one.submit(request_for("go on", requested=asked | {"max_new_tokens": 60, "min_new_tokens": 60})).result(60)
    length = min(len(ended.run.output_ids), 60)
    assert 0 < len(ended.run.output_ids) < 400
    assert ended.run.output_ids[:length] == whole.run.output_ids[:length]
    assert written(two, request_for("next", requested=WAYS["greedy"])) == written(
        one, request_for("next", requested=WAYS["greedy"])
    )


def test_the_model_says_that_it_is_spread_and_what_it_therefore_cannot(two: Engine, llama: Path) -> None:
    use(two, llama)
    status, report = two.status(), two.report
    assert status.facts
    assert report
    assert (status.facts.processes, status.facts.quantization) == (2, "none")
    assert "Spread over 2 processes" in report.warnings[0]
    assert "4-bit" in report.warnings[0]
    ended = two.submit(request_for("hi", requested={"output_attentions": True, "max_new_tokens": 2})).result(60)
    assert "output_attentions: Ignored: the model is spread over 2 processes" in " ".join(ended.run.notes)


def test_when_the_other_process_is_killed_the_run_fails_and_the_next_message_loads_again(
    one: Engine, two: Engine, in_two: InTwo, llama: Path
) -> None:
    use(one, llama)
    use(two, llama)
    (other,) = in_two.others
    run = two.submit(request_for("go on", requested={"max_new_tokens": 400, "min_new_tokens": 400, "seed": 5}))
    for _, event in run.events():
        if isinstance(event, TextDelta):
            os.kill(other, signal.SIGKILL)
            break
    ended = run.result(60)
    assert ended.run.status is RunStatus.FAILED
    assert ended.text
    assert "Process 2 of 2" in str(ended.run.error)
    assert "SIGKILL" in str(ended.run.error)
    assert two.status().state == "none"
    assert "loads again with your next message" in two.status().detail
    assert not psutil.pid_exists(other)
    assert written(two, request_for(QUESTION, requested=WAYS["greedy"])) == written(
        one, request_for(QUESTION, requested=WAYS["greedy"])
    )
    assert in_two.others != (other,)


def test_a_loss_is_told_while_nobody_asks_anything(two: Engine, in_two: InTwo, llama: Path) -> None:
    use(two, llama)
    (other,) = in_two.others
    member = in_two.spread._group and in_two.spread._group._members[0]
    os.kill(other, signal.SIGKILL)
    assert member
    assert member.ended.wait(30)
    group = in_two.spread._group
    assert group
    assert group.broken.wait(30)
    assert "SIGKILL" in two.status().detail


def test_unloading_ends_the_other_process(two: Engine, in_two: InTwo, llama: Path) -> None:
    assert two.unload().finished.wait(60)
    use(two, llama)
    (other,) = in_two.others
    assert psutil.pid_exists(other)
    assert two.unload().finished.wait(60)
    assert not psutil.pid_exists(other)
