"""What no longer fits into the context is recorded with the run, by message, so that a page can mark it."""

from __future__ import annotations

from dataclasses import replace

from app.chat import Chat
from app.conversation import Conversation, Message, Role, new_id
from ui.views import run_view

SHORT = {"max_new_tokens": 8, "seed": 5}


def long_conversation(chat: Chat, count: int) -> tuple[Conversation, list[str]]:
    """A conversation of ``count`` messages of 150 tokens each; the model's context holds 512."""
    talk, ids = Conversation(title="long"), [new_id() for _ in range(count)]
    messages = [
        Message(own, talk.id, parent, (Role.USER, Role.ASSISTANT)[place % 2], "word " * 60)
        for place, (own, parent) in enumerate(zip(ids, [None, *ids], strict=False))
    ]
    chat.store.add_conversation(replace(talk, shown_leaf=ids[-1]), messages)
    return talk, ids


def test_left_out_messages_are_named_in_the_record_and_in_what_the_page_gets(chat: Chat) -> None:
    talk, ids = long_conversation(chat, 8)
    started = chat.send("and now?", conversation_id=talk.id, requested=SHORT)
    started.run.result(60)
    chat.wait_until_kept(started.run.id)
    run = chat.store.run(started.run.id)
    omitted = run.explained["context_policy"]["omitted"]
    assert omitted
    assert omitted == ids[: len(omitted)]
    assert run_view(run)["omitted"] == omitted
    before = chat.preview("and now?", conversation_id=talk.id, parent_id=ids[-1], requested=SHORT)
    assert list(before.prompt.omitted) == omitted


def test_nothing_is_named_when_everything_fits(chat: Chat) -> None:
    started = chat.send("hello", requested=SHORT)
    started.run.result(60)
    chat.wait_until_kept(started.run.id)
    run = chat.store.run(started.run.id)
    assert "omitted" not in run.explained["context_policy"]
    assert run_view(run)["omitted"] == []


def test_the_negative_prompt_stands_in_the_whole_conversation_also_when_a_reply_is_made_again(chat: Chat) -> None:
    asked = {**SHORT, "temperature": 0, "negative_prompt": "Say nothing of use.", "guidance_scale": 2.0}
    first = chat.send("hello", requested=asked)
    again = chat.regenerate(first.reply.id, requested=asked)
    continued = chat.send("and now", conversation_id=first.conversation.id, parent_id=first.reply.id, requested=asked)
    for started in (first, again, continued):
        ended = started.run.result(60)
        assert ended.run.error is None
    assert again.run.result().run.output_ids == first.run.result().run.output_ids
    assert [m.content for m in continued.run.request.messages] == ["hello", first.run.text(), "and now"]
    chat.wait_until_kept(first.run.id)
    replayed = chat.replay(first.run.id)
    assert chat.check_replay(first.run.id, replayed, 60).identical
