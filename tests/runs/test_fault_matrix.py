"""What can happen to a run, times the state it happens in: each run comes to one end, keeps its text, and harms nothing after it."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from torch import Tensor

from app.chat import Chat
from app.conversation import FinishReason, RunStatus
from app.engine.engine import Engine
from app.engine.events import StatusChanged
from app.models.loading import LoadedModel
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel
from tests.runs.gates import LENGTH, QUESTION, STATES, WAYS, asked_for, before_forward, has_written, held
from tests.runs.whole import check_log, check_whole, streamed
from ui.live_view import RunView


class LampOut(Exception):
    """What a model raises in these tests."""


def fault(chat: Chat, when: str) -> tuple[Any, Any]:
    """What to do before a forward pass, and with its result, so that it goes wrong ``when`` it should."""
    done = Event()

    def raising() -> None:
        late = has_written(chat.engine.queue()[0])
        if not done.is_set() and (when == "before the first token" or (when == "later" and late)):
            done.set()
            raise LampOut("the lamp went out")

    def poison(out: Any) -> Any:
        logits: Tensor = out.logits
        if when == "at the first token":
            logits[:] = float("nan")
        return out

    return raising, poison


@pytest.mark.parametrize("when", ["before the first token", "at the first token", "later"])
@pytest.mark.parametrize("way", WAYS)
def test_an_exception_ends_the_run_with_its_reason_and_keeps_the_text(
    chat: Chat, tiny: LoadedModel, way: str, when: str
) -> None:
    act, after = fault(chat, when)
    with before_forward(tiny.model, act, after):
        started = chat.send(QUESTION, requested=asked_for(tiny, way))
        started.run.result(120)
    run = check_whole(chat, started)
    assert (run.status, run.finish_reason) == (RunStatus.FAILED, FinishReason.ERROR)
    assert ("NaN" if when == "at the first token" else "the lamp went out") in (run.error or "")
    assert bool(streamed(started.run)) == (when == "later" and way != "beams")


@pytest.mark.parametrize("state", STATES)
def test_stop_ends_the_computation_and_keeps_the_text(
    chat: Chat, tiny: LoadedModel, models: OneModel, state: str
) -> None:
    with held(chat, tiny, models, state) as run:
        before = run.gate.calls
        assert chat.stop(run.started.run.id)
        chat.stop(run.started.run.id)  # once more: pressed in impatience
        if state == "queued":  # at once, while the run ahead is still being computed
            assert run.run.ended is not None
        elif state == "loading":
            assert run.run.result(10)
            assert chat.engine.status().name == "tiny"
        run.let_go()
        if state not in {"queued", "loading"}:
            run.run.result(120)
            assert run.gate.calls - before <= 1, "computed on after the stop"
    kept = check_whole(chat, run.started)
    assert (kept.status, kept.finish_reason) == (RunStatus.STOPPED, FinishReason.STOPPED)
    assert len(kept.output_ids) < LENGTH
    assert bool(streamed(run.run)) == (state in {"generating", "two sequences", "beams", "prompt lookup"})
    assert chat.stop(run.started.run.id) is False


@pytest.mark.parametrize("state", STATES)
def test_a_reader_that_goes_away_changes_nothing(chat: Chat, tiny: LoadedModel, models: OneModel, state: str) -> None:
    with held(chat, tiny, models, state) as run:
        leaving = run.run.events()
        seen = next(leaving)
        leaving.close()  # type: ignore[attr-defined]  # it is a generator
        RunView(run.run).since(0)
        run.let_go()
    kept = check_whole(chat, run.started)
    assert kept.status is RunStatus.DONE
    assert len(kept.output_ids) == LENGTH
    assert run.run.read()[0] == seen
    undisturbed = chat.send(QUESTION, requested=run.run.request.requested)
    assert undisturbed.run.result(120).run.output_ids == kept.output_ids


@pytest.mark.parametrize("state", ["queued", "generating"])
def test_a_conversation_destroyed_while_its_reply_is_written_ends_quietly(
    chat: Chat, tiny: LoadedModel, models: OneModel, state: str
) -> None:
    with held(chat, tiny, models, state) as run:
        chat.store.trash([run.started.conversation.id])
        chat.store.purge([run.started.conversation.id])
        run.let_go()
        run.run.result(120)
    check_log(run.run)
    assert chat.wait_until_kept(run.run.id)
    check_whole(chat, chat.send("another", requested=asked_for(tiny, "plain")))


def test_models_switched_with_a_queue_waiting_serve_each_run_with_its_own(
    chat: Chat, tiny: LoadedModel, models: OneModel
) -> None:
    with held(chat, tiny, models, "generating") as run:
        job = chat.engine.load("second")
        plain = chat.send("on the second", requested=asked_for(tiny, "plain"))
        named = chat.send("on the third", requested=asked_for(tiny, "plain"), model="third")
        last = chat.send("still on the third", requested=asked_for(tiny, "plain"))
        refused = chat.send("on one that can't be loaded", requested=asked_for(tiny, "plain"), model="broken")
        after = chat.send("on the third after all", requested=asked_for(tiny, "plain"))
        run.let_go()
    for started in (run.started, plain, named, last, after):
        assert check_whole(chat, started).status is RunStatus.DONE
    failed = check_whole(chat, refused)
    assert failed.status is RunStatus.FAILED
    assert "no config.json" in (failed.error or "")
    assert job.finished.is_set()
    assert models.loads == ["tiny", "second", "third", "broken"]


def test_an_idle_model_is_not_freed_under_waiting_runs_and_comes_back_for_the_next(
    tiny: LoadedModel, tmp_path: Any
) -> None:
    freed: Event = Event()

    class Counting(OneModel):
        def unload(self, loaded: LoadedModel) -> None:
            freed.set()

    models = Counting(tiny)
    models.gate.set()
    settings = Settings(home=tmp_path, prefill_chunk=16, idle_unload_minutes=0.05 / 60)
    chat = Chat(open_store(tmp_path), Engine(models, settings), settings)
    try:
        chat.engine.load("tiny")
        with held(chat, tiny, models, "queued") as run:
            freed.clear()
            assert not freed.wait(0.3), "freed while runs were waiting"
            run.let_go()
            run.run.result(120)
        assert freed.wait(30)
        again = chat.send("come back", requested=asked_for(tiny, "plain"))
        statuses = [e.status for _, e in again.run.events() if isinstance(e, StatusChanged)]
        assert RunStatus.LOADING in statuses
        assert check_log(again.run).run.status is RunStatus.DONE
    finally:
        chat.close()


def test_a_run_stopped_in_the_queue_leaves_the_one_being_written_alone(
    chat: Chat, tiny: LoadedModel, models: OneModel
) -> None:
    with held(chat, tiny, models, "queued") as run:
        ahead = chat.engine.queue()[0]
        chat.stop(run.run.id)
        assert chat.engine.queue() == (ahead,)
    assert ahead.result(120).run.status is RunStatus.DONE


def test_a_message_that_comes_while_fader_closes_still_gets_an_end(chat: Chat, tiny: LoadedModel) -> None:
    chat.engine.close()
    late = chat.engine.submit(chat.send("too late", requested=asked_for(tiny, "plain")).run.request)
    assert late.result(10).run.status is RunStatus.STOPPED
