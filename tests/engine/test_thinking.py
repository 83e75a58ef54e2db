"""Thinking that the prompt has opened: it streams as thinking, and its text says so by itself when it is stopped, kept and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from app.chat import Chat
from app.conversation import FinishReason, RunStatus, new_id
from app.engine.engine import Engine
from app.engine.events import StatusChanged, TextDelta
from app.engine.run import LiveRun, RunRequest
from app.engine.streamer import RunStreamer
from app.models.loading import LoadedModel
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel
from tests.models.tiny import CHATML, tiny_tokenizer
from ui.thinking import split_thinking

OPENS = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
ASKED = {
    "max_new_tokens": 12,
    "min_new_tokens": 12,
    "seed": 3,
    "temperature": 1.0,
    "suppress_tokens": [0, 1, 2, 3, 4],
}
"""Of exactly so many tokens, none of them special."""


@pytest.fixture
def chat(tiny: LoadedModel, fader_home: Path) -> Iterator[Chat]:
    """Over a model whose template opens a thinking block."""
    thinking = LoadedModel(tiny.model, deepcopy(tiny.tokenizer), tiny.facts, tiny.report)
    thinking.tokenizer.chat_template = OPENS
    models = OneModel(thinking)
    models.gate.set()
    settings = Settings(home=fader_home, prefill_chunk=16, read_ahead=False)
    made = Chat(open_store(fader_home), Engine(models, settings), settings)
    assert made.engine.load("tiny").finished.wait(60)
    yield made
    made.close()


def deltas(run: LiveRun) -> list[TextDelta]:
    return [event for _, event in run.events() if isinstance(event, TextDelta)]


def test_it_streams_as_thinking_and_goes_on_as_thinking(chat: Chat) -> None:
    started = chat.send("hello", requested=ASKED)
    first = deltas(started.run)
    assert (first[0].text, first[0].kind) == ("<think>", "mark")
    assert {delta.kind for delta in first[1:]} == {"thinking"}
    ended = started.run.result(60)
    assert chat.engine.loaded
    assert ended.text == "<think>\n" + str(chat.engine.loaded.tokenizer.decode(list(ended.run.output_ids)))
    assert chat.wait_until_kept(ended.run.id)
    assert [kind for kind, _ in split_thinking(chat.store.message(started.reply.id).content)] == ["thinking"]
    further = chat.continue_reply(started.reply.id, requested=ASKED)
    assert {delta.kind for delta in deltas(further.run)} == {"mark", "thinking"}
    assert further.run.result(60).text.startswith(ended.text)
    branched = chat.branch_token(started.reply.id, 3, "x", requested=ASKED)
    assert {delta.kind for delta in deltas(branched.run)} == {"mark", "thinking"}
    assert further.run.result().run.status is RunStatus.DONE
    assert further.run.result().run.finish_reason is FinishReason.LENGTH


def test_the_answer_begins_behind_the_closing_tag_that_the_model_writes() -> None:
    tokenizer = tiny_tokenizer()
    run = LiveRun(RunRequest(new_id(), "", new_id(), ()))
    run.append(StatusChanged(RunStatus.PREFILL))
    streamer = RunStreamer(run, tokenizer, opening="<think>\n")
    for token in tokenizer("so it is</think>the answer")["input_ids"]:
        streamer.token(0, token)
    streamer.end()
    parts = [(e.kind, e.text) for _, e in run.read() if isinstance(e, TextDelta)]
    joined = {kind: "".join(text for k, text in parts if k == kind) for kind in ("thinking", "answer")}
    assert joined == {"thinking": "\nso it is", "answer": "the answer"}
    assert run.text() == "<think>\nso it is</think>the answer"


def test_a_typed_beginning_stands_inside_the_block_that_the_prompt_opened(chat: Chat) -> None:
    run = chat.send("hello", requested=ASKED, prefix="First, ").run
    assert run.result(60).text.startswith("<think>\nFirst, ")
    assert {delta.kind for delta in deltas(run)} == {"mark", "thinking"}
