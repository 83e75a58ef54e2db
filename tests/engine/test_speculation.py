"""Guessing ahead: the text is what it would have been, to the last bit, and steps are saved."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from app.conversation import Run, RunStatus
from app.engine.engine import Engine
from app.engine.events import Ended
from app.engine.fast.replies import Replies
from app.engine.fast.step import FastStep
from app.engine.speculation.reader import DraftReader
from app.models.loading import LoadedModel
from app.settings import Settings
from tests.engine.conftest import request_for
from tests.engine.test_fast_step import kernels_of, load
from tests.engine.test_guess_plan import Fixed
from tests.models.tiny import tiny_llama
from tests.proofs.conftest import Shelf

GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 60, "min_new_tokens": 60}
SAMPLED: dict[str, Any] = {
    "do_sample": True,
    "temperature": 0.4,
    "top_k": 0,
    "top_p": 1.0,
    "max_new_tokens": 60,
    "seed": 5,
}


@pytest.mark.parametrize("many", [2, 3, 4, 5, 9, 16])
def test_tokens_checked_together_give_the_numbers_of_one_after_the_other(tiny: LoadedModel, many: int) -> None:
    """Also behind a guess that was wrong, whose keys and values are still there."""
    step, tokens = FastStep(tiny.model, kernels_of(tiny)), [token * 31 % 300 for token in range(many)]
    replies = step.replies
    step.begin(DynamicCache())
    alone = torch.cat([step(token)[0] for token in [*tokens, 5]])
    step.begin(DynamicCache())
    replies.follow([tokens[0], *[7] * (many - 1)])
    replies.length = 0
    together = replies.follow(tokens)
    replies.length += many - 1
    assert torch.equal(together, alone[:-1])
    assert torch.equal(step(5)[0, -1], alone[-1])
    step.end()


def test_there_is_room_for_guesses_at_the_end_of_the_room(tiny: LoadedModel) -> None:
    from app.engine.fast.replies import ROOM

    step = FastStep(tiny.model, kernels_of(tiny))
    step.begin(DynamicCache())
    for token in range(ROOM - 2):
        step(token % 300)
    before = step.replies.length
    together = step.replies.follow([1, 2, 3, 4])
    step.replies.length = before
    alone = torch.cat([step(token)[0] for token in (1, 2, 3, 4)])
    assert torch.equal(together, alone)
    step.end()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Shelf:
    folder = tmp_path_factory.mktemp("drafts")
    seeds = {"main": 0, "twin": 0, "stranger": 7}
    return Shelf(**{name: load(tiny_llama(folder / name, seed=seed), shared_cache) for name, seed in seeds.items()})


@pytest.fixture
def drafting(shelf: Shelf) -> Iterator[Engine]:
    """An engine on a machine where checking three guesses costs little more than one step."""
    engine = Engine(shelf, Settings(prefill_chunk=16, read_ahead=False))
    assert engine.load("main").finished.wait(60)
    step = engine.held.beside.decoding.step
    assert step is not None
    step.replies.costs = Fixed(0.1)
    yield engine
    engine.close()


def ended(engine: Engine, **asked: Any) -> Ended:
    return engine.submit(request_for("one two one two one two one", requested={"seed": 1, **asked})).result(60)


def reply(engine: Engine, **asked: Any) -> Run:
    run = ended(engine, **asked).run
    assert run.status is RunStatus.DONE, run.error
    return run


@pytest.mark.parametrize("asked", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_prompt_lookup_saves_steps_and_changes_neither_text_nor_trace(drafting: Engine, asked: dict[str, Any]) -> None:
    plain, quick = (ended(drafting, **asked, prompt_lookup_num_tokens=count) for count in (0, 8))
    assert quick.run.output_ids == plain.run.output_ids
    assert quick.trace == plain.trace
    assert quick.trace
    assert (quick.run.stats.drafted_by, plain.run.stats.drafted_by) == ("prompt lookup", None)
    assert quick.run.stats.passes < quick.run.stats.new_tokens * 0.8
    assert quick.run.stats.gain
    assert plain.run.stats.passes < plain.run.stats.new_tokens, "the plan kept dry tells what would have been saved"


def load_draft(engine: Engine, name: str) -> Any:
    job = engine.load_draft(name)
    assert job.finished.wait(60)
    assert job.error is None
    draft = engine.held.beside.draft
    assert draft is not None
    assert draft.reader is not None
    draft.reader.share = 0.05
    draft.reader.has_read(1_000_000, 1.0)  # its beginning takes no time
    return draft


@pytest.mark.parametrize("asked", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ["twin", "stranger"])
def test_a_draft_changes_neither_text_nor_trace(drafting: Engine, name: str, asked: dict[str, Any]) -> None:
    plain = ended(drafting, **asked)
    load_draft(drafting, name)
    quick = ended(drafting, **asked, assistant_confidence_threshold=0.0)
    assert quick.run.output_ids == plain.run.output_ids
    assert quick.trace == plain.trace
    assert quick.run.stats.drafted_by == name
    assert quick.run.model_fingerprint["decode"] == "fast step"
    if name == "twin" and asked is GREEDY:
        assert quick.run.stats.passes <= 16


def test_what_a_draft_can_gain_is_told_when_it_is_loaded(drafting: Engine) -> None:
    assert drafting.draft_outlook() == ""
    draft = load_draft(drafting, "twin")
    assert "it gains where at least" in drafting.draft_outlook()
    draft.reader.share = 1.0
    assert "too much for it to gain anything" in drafting.draft_outlook()
    draft.reader = None
    assert "where it loses it rests" in drafting.draft_outlook()


def test_a_draft_writes_at_most_what_was_asked(drafting: Engine) -> None:
    load_draft(drafting, "twin")
    passes = [
        reply(drafting, **GREEDY, num_assistant_tokens=count, assistant_confidence_threshold=0.0).stats.passes
        for count in (1, 2, 3)
    ]
    assert passes[0] == 30
    assert passes[0] > passes[1] > passes[2]


def test_a_draft_that_is_not_sure_writes_less(drafting: Engine) -> None:
    load_draft(drafting, "twin")
    passes = [reply(drafting, **GREEDY, assistant_confidence_threshold=limit).stats.passes for limit in (0.0, 1.0)]
    assert passes[0] < passes[1]


def test_the_length_of_drafts_follows_its_schedule(drafting: Engine) -> None:
    """Constant keeps it, the transient heuristic grows within a reply, the other one keeps what it reached for the next."""
    load_draft(drafting, "twin")
    few = {**GREEDY, "num_assistant_tokens": 1, "assistant_confidence_threshold": 0.0}
    passes = {
        schedule: [reply(drafting, **few, num_assistant_tokens_schedule=schedule).stats.passes for _ in range(2)]
        for schedule in ("constant", "heuristic_transient", "heuristic")
    }
    assert passes["constant"] == [30, 30]
    assert passes["heuristic_transient"][0] == passes["heuristic_transient"][1] < 30
    assert passes["heuristic"][1] < passes["heuristic"][0] < 30


def test_stop_reaches_a_draft_that_reads_a_long_prompt(drafting: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = load_draft(drafting, "twin")
    monkeypatch.setattr("app.engine.speculation.reader.CHUNK", 16)
    read: list[int] = []
    stock = draft.loaded.model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        read.append(1)
        drafting.queue()[0].cancel()
        return stock(*args, **kwargs)

    monkeypatch.setattr(draft.loaded.model, "forward", forward)
    run = drafting.submit(
        request_for("one two three " * 40, requested={**GREEDY, "assistant_confidence_threshold": 0.0})
    )
    assert run.result(60).run.status is RunStatus.STOPPED
    assert len(read) == 1


def read_by(draft: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens the draft reads in chunks, call by call, and how many rows its steps have."""
    replies: Replies = draft.reader.step.replies
    stock, follow, counts = draft.loaded.model.forward, replies.follow, list[int]()

    def forward(ids: torch.Tensor, **kwargs: Any) -> Any:
        counts.append(ids.shape[1])
        return stock(ids, **kwargs)

    def steps(tokens: Sequence[int]) -> torch.Tensor:
        counts.append(len(tokens))
        return follow(tokens)

    monkeypatch.setattr(draft.loaded.model, "forward", forward)
    monkeypatch.setattr(replies, "follow", steps)
    return counts


def test_a_draft_reads_only_what_is_new_of_a_conversation(drafting: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    draft, asked = load_draft(drafting, "twin"), {**GREEDY, "assistant_confidence_threshold": 0.0}
    counts = read_by(draft, monkeypatch)
    first = reply(drafting, **asked)
    assert sum(counts) >= len(first.prompt_ids)
    counts.clear()
    again = reply(drafting, **asked)
    assert again.output_ids == first.output_ids
    assert sum(counts) <= len(first.output_ids) + 2, "the prompt was read the first time"


def test_a_draft_forgets_what_another_conversation_said(drafting: Engine) -> None:
    asked: dict[str, Any] = {**GREEDY, "seed": 1}
    others = [request_for(text, requested=asked) for text in ("two one " * 30, "one two three", "two one " * 20)]
    plain = [drafting.submit(other).result(60).run.output_ids for other in others]
    load_draft(drafting, "twin")
    quick = [drafting.submit(other).result(60).run for other in others]
    assert [run.output_ids for run in quick] == plain
    assert all(run.stats.passes < 40 for run in quick)


def test_a_draft_as_slow_as_the_model_is_never_asked_also_when_the_machine_gets_busy(drafting: Engine) -> None:
    draft = load_draft(drafting, "twin")
    draft.reader.share = 1.0
    for pace in (1.0, 5.0):
        draft.reader.costs.learn([{1: pace, 2: 1.1 * pace, 4: 1.3 * pace}])
        assert reply(drafting, **GREEDY).stats.passes == GREEDY["max_new_tokens"] - 1


@pytest.mark.parametrize("lengths", [(1,), (3,), (16,), (17,), (300,), (40, 45, 44, 300, 20, 1), (5, 700, 5)])
def test_a_draft_has_read_what_it_was_given_whatever_it_read_before(
    tiny: LoadedModel, lengths: tuple[int, ...]
) -> None:
    step = FastStep(tiny.model, kernels_of(tiny))
    reader = DraftReader(tiny.model, step, Fixed(0.1), 1.0)
    model: Any = tiny.model
    for number, length in enumerate(lengths):
        ids = [(place * 31 + (number % 2) * (place // 30)) % 300 for place in range(length)]
        found = reader.catch_up(ids, Event())
        with torch.no_grad():
            expected = model(torch.tensor([ids])).logits[0, -1].float()
        assert torch.allclose(found.softmax(-1), expected.softmax(-1), atol=0.03)
        assert reader.behind(ids) == 0
    reader.free()


def test_nothing_of_a_draft_is_held_when_its_memory_is_given_back(
    drafting: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = weakref.ref(load_draft(drafting, "twin").reader)
    reply(drafting, **GREEDY)
    held: list[bool] = []
    monkeypatch.setattr(drafting.held.models, "unload", lambda _: held.append(reader() is not None))
    assert drafting.unload_draft().finished.wait(60)
    assert held == [False]


def test_where_memory_runs_out_a_draft_forgets_what_it_has_read(
    drafting: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, asked = load_draft(drafting, "twin"), {**GREEDY, "assistant_confidence_threshold": 0.0}
    first = reply(drafting, **asked)
    counts = read_by(draft, monkeypatch)
    follow = drafting.held.beside.decoding.step.replies.follow  # type: ignore[union-attr]
    monkeypatch.setattr(
        drafting.held.beside.decoding.step.replies,  # type: ignore[union-attr]
        "follow",
        lambda _: (_ for _ in ()).throw(MemoryError()),
    )
    assert ended(drafting, **asked).run.status is RunStatus.FAILED
    monkeypatch.setattr(drafting.held.beside.decoding.step.replies, "follow", follow)  # type: ignore[union-attr]
    counts.clear()
    assert reply(drafting, **asked).output_ids == first.output_ids
    assert sum(counts) >= len(first.prompt_ids), "it reads the prompt again"
