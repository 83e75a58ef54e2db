"""Reading ahead: the next turn finds the last reply read already, to the same bits; whoever asks meanwhile waits for one chunk at most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from app.conversation import Message, Role, Run, RunStatus, new_id
from app.engine import ahead
from app.engine.engine import Engine
from app.engine.run import LiveRun, RunRequest
from app.engine.score import Question
from app.models.loading import LoadedModel
from app.settings import Settings
from tests.engine.conftest import OneModel, request_for
from tests.runs.gates import Gate, before_forward

BLOCK = 16
END = 2
"""The token behind each message."""
QUESTION = "one two three four five six seven eight nine ten " * 2
ASKED: dict[str, Any] = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 80, "min_new_tokens": 80, "seed": 3}
BLOCKS_OF_REPLY = 4
"""At least so many blocks of the conversation are its reply."""


@contextmanager
def engine_with(models: OneModel, chunk: int = BLOCK, **settings: Any) -> Iterator[Engine]:
    made = Engine(models, Settings(prefill_chunk=chunk, **settings))
    try:
        assert made.load("tiny").finished.wait(60)
        yield made
    finally:
        made.close()


def first_turn(engine: Engine) -> LiveRun:
    run = engine.submit(request_for(QUESTION, requested=ASKED))
    assert run.result(60).run.status is RunStatus.DONE
    return run


def next_turn(run: LiveRun) -> RunRequest:
    """The same conversation with the reply and another question."""
    conversation = run.request.conversation_id
    reply = Message(new_id(), conversation, None, Role.ASSISTANT, run.result().text)
    question = Message(new_id(), conversation, None, Role.USER, "and what then?")
    return request_for(requested=ASKED, messages=(*run.request.messages, reply, question))


def unread(run: Run) -> int:
    return len(run.prompt_ids) - run.stats.reused_tokens


@pytest.mark.parametrize("chunk", [BLOCK, 4 * BLOCK])
def test_the_next_turn_reads_its_own_question_only_and_says_the_same(models: OneModel, chunk: int) -> None:
    with engine_with(models, chunk, read_ahead=False) as engine:
        without = engine.submit(next_turn(first_turn(engine))).result(60).run
    with engine_with(models, chunk) as engine:
        run = first_turn(engine)
        assert engine.settle(60)
        ended = engine.submit(next_turn(run)).result(60).run
    assert ended.prompt_ids == without.prompt_ids
    assert ended.output_ids == without.output_ids
    assert unread(ended) <= unread(without) - BLOCKS_OF_REPLY * BLOCK
    end_of_reply = [place for place, token in enumerate(ended.prompt_ids, start=1) if token == END][-2]
    assert ended.stats.reused_tokens == end_of_reply


@dataclass(eq=False)
class Counting(Question):
    """Work that looks how many forward passes there were before it."""

    gate: Gate | None = None
    before: int = 0

    def answer(self, loaded: LoadedModel, chunk: int) -> None:
        del loaded, chunk
        assert self.gate
        self.before = self.gate.calls


def test_work_that_comes_meanwhile_waits_for_one_chunk_and_the_rest_is_read_afterwards(
    models: OneModel, tiny: LoadedModel
) -> None:
    with engine_with(models) as engine:
        run = first_turn(engine)
        gate = Gate(lambda call: call == 2)
        with before_forward(tiny.model, gate):
            assert gate.reached.wait(60)
            engine.ask(question := Counting(gate=gate))
            gate.open.set()
            assert question.finished.wait(60)
            assert question.before == 2
            assert engine.settle(60)
            assert gate.calls >= BLOCKS_OF_REPLY
        assert unread(engine.submit(next_turn(run)).result(60).run) < 4 * BLOCK


def test_a_run_that_comes_meanwhile_is_served_and_what_was_read_until_then_is_kept(
    models: OneModel, tiny: LoadedModel
) -> None:
    with engine_with(models) as engine:
        run = first_turn(engine)
        gate = Gate(lambda call: call == 3)
        with before_forward(tiny.model, gate):
            assert gate.reached.wait(60)
            second = engine.submit(next_turn(run))
            assert [getattr(event, "detail", None) for _, event in second.read()] == [""], (
                "it is told that it waits behind nobody"
            )
            gate.open.set()
            ended = second.result(60).run
        assert ended.status is RunStatus.DONE
        assert unread(first := run.result().run) == len(first.prompt_ids)
        assert ended.stats.reused_tokens >= len(first.prompt_ids) // BLOCK * BLOCK + 2 * BLOCK


def test_closing_does_not_wait_for_it(models: OneModel, tiny: LoadedModel) -> None:
    with engine_with(models) as engine:
        first_turn(engine)
        gate = Gate(lambda call: call == 1)
        with before_forward(tiny.model, gate):
            assert gate.reached.wait(60)
            assert engine.queue() == ()
            gate.open.set()
            engine.close()
            assert gate.calls == 1


@pytest.mark.parametrize("why", ["off", "nothing may be kept", "memory is short", "a replay"])
def test_nothing_is_read_ahead_when(
    why: str, models: OneModel, tiny: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: dict[str, dict[str, Any]] = {"off": {"read_ahead": False}, "nothing may be kept": {"prefix_cache_mb": 0}}
    settings = cases.get(why, {})
    if why == "memory is short":
        monkeypatch.setattr(ahead, "free_bytes", lambda _options: ahead.SPARE_BYTES)
    with engine_with(models, **settings) as engine:
        run = engine.submit(request_for(QUESTION, requested=ASKED))
        if why == "a replay":
            run = engine.submit(replace(run.request, run_id=new_id(), conversation_id=""))
        run.result(60)
        assert engine.settle(60)
        assert unread(engine.submit(next_turn(run)).result(60).run) > BLOCKS_OF_REPLY * BLOCK
