"""What was read once isn't read again: from turn to turn, after an edit, another reply, and back in an earlier conversation."""

from __future__ import annotations

from typing import Any

from app.chat import Chat, Started
from app.conversation import Run
from app.engine.cuts import Cuts
from tests.engine.test_prefix_cache import BLOCK

LONG = "one two three four five six seven eight nine ten " * 3
SHORT: dict[str, Any] = {"max_new_tokens": 4, "min_new_tokens": 4, "temperature": 1.2, "seed": 5}


def done(chat: Chat, started: Started) -> Run:
    run = started.run.result(60).run
    assert run.error is None
    assert chat.wait_until_kept(run.id)
    return run


def shared(one: Run, other: Run, cuts: Cuts) -> int:
    """Whole chunks (in tokens) that two prompts begin with alike; the last token is always read."""
    pairs = enumerate(zip(one.prompt_ids, other.prompt_ids, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), min(len(one.prompt_ids), len(other.prompt_ids)))
    both = set(cuts.of(one.prompt_ids)) & set(cuts.of(other.prompt_ids))
    return max((end for end in both if end <= same and end < len(other.prompt_ids)), default=0)


def test_every_way_to_go_on_begins_with_what_is_known(chat: Chat) -> None:
    before = done(chat, first := chat.send(LONG, requested=SHORT))
    assert before.stats.reused_tokens == 0
    talk = first.conversation.id
    further = done(chat, second := chat.send("and on " + LONG, conversation_id=talk, requested=SHORT))
    again = done(chat, chat.regenerate(second.reply.id, requested={**SHORT, "seed": 6}))
    question = chat.store.message(second.reply.id).parent_id
    assert question
    edited = done(chat, chat.edit(question, "and otherwise " + LONG, requested=SHORT))
    elsewhere = done(chat, chat.send("quite another matter " + LONG, requested=SHORT))
    back = done(chat, chat.send("where were we?", conversation_id=talk, parent_id=second.reply.id, requested=SHORT))
    ways = {
        "next turn": (before, further),
        "regenerate": (further, again),
        "edit": (further, edited),
        "another conversation": (before, elsewhere),
        "switching back": (further, back),
    }
    for way, (known, run) in ways.items():
        assert run.stats.reused_tokens >= shared(known, run, chat.engine.held.blocks.cuts), way
    for way in ("next turn", "regenerate", "edit", "switching back"):
        assert ways[way][1].stats.reused_tokens >= 2 * BLOCK, way


def test_a_prompt_that_was_stopped_goes_on_where_it_was(chat: Chat) -> None:
    assert chat.engine.loaded
    model: Any = chat.engine.loaded.model
    chunks = 0
    started: list[Started] = []

    def stop_at_the_fourth(*_: object) -> None:
        nonlocal chunks
        chunks += 1
        if chunks == 4:
            chat.engine.queue()[0].cancel()

    hook = model.register_forward_pre_hook(stop_at_the_fourth)
    try:
        started.append(chat.send("first " + LONG * 2, requested=SHORT))
        stopped = started[0].run.result(60).run
    finally:
        hook.remove()
    assert (chunks, stopped.output_ids) == (4, ())
    assert chat.wait_until_kept(stopped.id)
    again = done(chat, chat.regenerate(started[0].reply.id, requested=SHORT))
    assert again.stats.reused_tokens == 4 * BLOCK


def test_reuse_changes_no_token(chat: Chat) -> None:
    asked = {**SHORT, "max_new_tokens": 24, "min_new_tokens": 24}
    done(chat, first := chat.send(LONG, requested=asked))
    warm = done(chat, second := chat.send("and on", conversation_id=first.conversation.id, requested=asked))
    chat.engine.held.blocks.clear()
    cold = done(chat, chat.regenerate(second.reply.id, requested=asked))
    assert cold.stats.reused_tokens == 0 < warm.stats.reused_tokens
    assert (cold.prompt_ids, cold.output_ids) == (warm.prompt_ids, warm.output_ids)
