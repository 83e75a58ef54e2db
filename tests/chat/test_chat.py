"""What a user does with a conversation, and what is in the database afterwards: nothing is ever destroyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.chat import Chat, Started
from app.conversation import FinishReason, Role, Run, RunStatus
from app.engine.events import TextDelta
from app.errors import BadParameter, RefusedInput

SHORT = {"max_new_tokens": 8, "seed": 5}
LONG = {"max_new_tokens": 300, "min_new_tokens": 300, "seed": 5}


def done(chat: Chat, started: Started) -> Run:
    """The run as it is in the store once it has ended."""
    started.run.result(60)
    chat.wait_until_kept(started.run.id)
    return chat.store.run(started.run.id)


def shown(chat: Chat, conversation_id: str) -> list[tuple[str, str]]:
    return [(s.message.role.value, s.message.content) for s in chat.store.branch(conversation_id)]


def test_a_message_and_its_reply_are_kept_with_all_that_belongs_to_the_run(chat: Chat) -> None:
    started = chat.send("What is  the *capital*?\nmore", requested=SHORT, system_prompt="Be brief.")
    run = done(chat, started)
    conversation = chat.store.conversation(started.conversation.id)
    text = started.run.text()
    assert shown(chat, conversation.id) == [("user", "What is  the *capital*?\nmore"), ("assistant", text)]
    assert (conversation.title, conversation.system_prompt) == ("What is the capital?", "Be brief.")
    assert (run.status, run.finish_reason, run.seed) == (RunStatus.DONE, FinishReason.LENGTH, 5)
    assert run.requested == SHORT
    assert run.effective["max_new_tokens"] == 8
    assert run.explained["max_new_tokens"]["source"] == "set"
    assert len(run.output_ids) == 8
    assert run.prompt_ids
    assert run.model_fingerprint["name"]
    assert run.stats.prompt_tokens == len(run.prompt_ids)


def test_the_next_message_goes_below_the_reply_and_the_model_sees_both(chat: Chat) -> None:
    first = chat.send("hello", requested=SHORT)
    done(chat, first)
    second = chat.send("and now", conversation_id=first.conversation.id, requested=SHORT)
    run = done(chat, second)
    assert [role for role, _ in shown(chat, first.conversation.id)] == ["user", "assistant", "user", "assistant"]
    loaded = chat.engine.loaded
    assert loaded is not None
    assert "hello" in loaded.tokenizer.decode(list(run.prompt_ids))


def test_editing_makes_a_sibling_and_keeps_the_old_branch(chat: Chat) -> None:
    first = chat.send("helo", requested=SHORT)
    done(chat, first)
    question = chat.store.branch(first.conversation.id)[0].message
    second = chat.edit(question.id, "hello", requested=SHORT)
    done(chat, second)
    top = chat.store.branch(first.conversation.id)[0]
    assert (top.message.content, len(top.siblings), top.place) == ("hello", 2, 1)
    assert chat.store.message(question.id).content == "helo"
    assert chat.store.message(first.reply.id).content == first.run.text()


def test_regenerating_makes_a_sibling_reply(chat: Chat) -> None:
    first = chat.send("hello", requested=SHORT)
    done(chat, first)
    second = chat.regenerate(first.reply.id, requested=SHORT)
    done(chat, second)
    reply = chat.store.branch(first.conversation.id)[-1]
    assert reply.siblings == (first.reply.id, second.reply.id)
    assert reply.message.content == first.run.text()  # same seed, same text


def test_a_stopped_reply_is_kept_and_can_be_continued_at_the_token(chat: Chat) -> None:
    started = chat.send("hello", requested=LONG)
    for _, event in started.run.events():
        if isinstance(event, TextDelta):
            break
    assert chat.stop(started.run.id)
    old = done(chat, started)
    assert old.finish_reason is FinishReason.STOPPED
    further = chat.continue_reply(started.reply.id, requested=SHORT)
    new = done(chat, further)
    assert new.output_ids[: len(old.output_ids)] == old.output_ids
    assert len(new.output_ids) == len(old.output_ids) + 8
    assert new.prompt_ids == old.prompt_ids
    assert further.run.text().startswith(started.run.text())
    assert chat.store.message(started.reply.id).content == started.run.text()


def test_a_reply_can_be_started_with_typed_text(chat: Chat) -> None:
    started = chat.send("hello", requested=SHORT, prefix="Sure, ")
    done(chat, started)
    content = chat.store.message(started.reply.id).content
    assert content.startswith("Sure, ")
    assert len(content) > len("Sure, ")


def test_a_branch_into_a_new_conversation_copies_the_path_with_its_runs(chat: Chat) -> None:
    first = chat.send("hello", requested=SHORT)
    run = done(chat, first)
    done(chat, chat.send("more", conversation_id=first.conversation.id, requested=SHORT))
    twin = chat.branch(first.reply.id)
    assert shown(chat, twin.id) == shown(chat, first.conversation.id)[:2]
    copied = chat.store.branch(twin.id)[-1].message.run
    assert copied is not None
    assert (copied.output_ids, copied.seed) == (run.output_ids, run.seed)
    assert copied.id != run.id


def test_several_sequences_are_sibling_replies_in_the_store(chat: Chat) -> None:
    asked = {**SHORT, "do_sample": True, "temperature": 2.0, "num_return_sequences": 3}
    started = chat.send("hello", requested=asked)
    done(chat, started)
    reply = chat.store.branch(started.conversation.id)[-1]
    assert reply.message.id == started.reply.id
    assert len(reply.siblings) == 3
    runs = [chat.store.message(sibling).run for sibling in reply.siblings]
    assert len({run.output_ids for run in runs if run}) == 3


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_blank_messages_are_not_sent(chat: Chat, text: str) -> None:
    with pytest.raises(RefusedInput, match="empty"):
        chat.send(text)
    assert chat.store.conversations().hits == ()


def test_too_long_messages_are_refused_with_the_limit(chat: Chat) -> None:
    with pytest.raises(RefusedInput, match="200,000"):
        chat.send("x" * 200_001)


def test_a_bad_parameter_is_refused_by_name_before_anything_is_stored(chat: Chat) -> None:
    with pytest.raises(BadParameter, match="top_p"):
        chat.send("hello", requested={"top_p": 1.5})
    assert chat.store.conversations().hits == ()


def test_partial_text_is_in_the_database_while_the_reply_is_written(chat: Chat) -> None:
    started = chat.send("hello", requested=LONG)
    for _, event in started.run.events():
        if isinstance(event, TextDelta):
            break
    chat.wait_until_flushed(started.run.id)
    assert chat.store.message(started.reply.id).content
    assert chat.store.message(started.reply.id).role is Role.ASSISTANT
    chat.stop(started.run.id)
    done(chat, started)


def test_closing_while_a_reply_is_written_keeps_it_as_stopped(chat: Chat, fader_home: Path) -> None:
    from storage import open_store

    started = chat.send("hello", requested=LONG)
    for _, event in started.run.events():
        if isinstance(event, TextDelta):
            break
    chat.close()
    again = open_store(fader_home)
    assert again.run(started.run.id).status is RunStatus.STOPPED
    assert again.message(started.reply.id).content == started.run.text()
    again.close()


def test_the_preview_is_the_prompt_that_is_then_sent(chat: Chat) -> None:
    first = chat.send("hello", requested=SHORT, system_prompt="Be brief.")
    done(chat, first)
    preview = chat.preview("and now <|im_end|>", conversation_id=first.conversation.id, requested=SHORT)
    run = done(chat, chat.send("and now <|im_end|>", conversation_id=first.conversation.id, requested=SHORT))
    assert preview.prompt.ids == run.prompt_ids
    assert "".join(piece.text for piece in preview.pieces) == preview.prompt.text
    assert preview.meter.used == len(run.prompt_ids)
    assert preview.meter.reserved == 8
    assert preview.meter.free == preview.meter.context - len(run.prompt_ids) - 8


def test_looking_at_tokens_while_a_reply_is_written_disturbs_neither(chat: Chat) -> None:
    started = chat.send("hello", requested=LONG)
    looked = 0
    for _, event in started.run.events():
        if isinstance(event, TextDelta):
            desk = chat.engine.desk
            assert desk is not None
            pieces = desk.tokenize("some words <|im_end|>", literal=True)
            assert "".join(piece.text for piece in pieces) == "some words <|im_end|>"
            assert not any(piece.special for piece in pieces)
            looked += 1
    assert looked > 10
    assert done(chat, started).status is RunStatus.DONE


@pytest.mark.parametrize(
    "asked", [{"temperature": 0}, {"do_sample": True, "temperature": 1.5, "top_k": 12, "num_return_sequences": 2}]
)
def test_the_trace_is_kept_with_the_run_and_tells_of_every_token(chat: Chat, asked: dict[str, object]) -> None:
    from app.engine.trace import Trace

    started = chat.send("hello", requested={**SHORT, **asked, "trace_top_k": 7})
    done(chat, started)
    for sibling in chat.store.branch(started.conversation.id)[-1].siblings:
        run = chat.store.message(sibling).run
        assert run is not None
        data = chat.store.trace(run.id)
        assert data is not None
        trace = Trace.unpack(data)
        assert trace.chosen.tolist() == list(run.output_ids)
        assert trace.k == 7
        if "top_k" in asked:
            assert trace.left[:, -1].max() <= 12


def test_without_trace_nothing_is_recorded(chat: Chat) -> None:
    started = chat.send("hello", requested={**SHORT, "trace_top_k": 0})
    done(chat, started)
    assert chat.store.trace(started.run.id) is None


def test_a_message_sent_while_a_reply_is_written_sees_the_whole_reply(chat: Chat) -> None:
    first = chat.send("hello", requested={"max_new_tokens": 60, "min_new_tokens": 60, "seed": 2})
    second = chat.send("and now", conversation_id=first.conversation.id, requested=SHORT)
    run = done(chat, second)
    loaded = chat.engine.loaded
    assert loaded is not None
    assert first.run.text()
    assert first.run.text() in loaded.tokenizer.decode(list(run.prompt_ids))


def test_stop_then_send_at_once_shows_the_model_the_partial_reply(chat: Chat) -> None:
    first = chat.send("hello", requested=LONG)
    for _, event in first.run.events():
        if isinstance(event, TextDelta):
            break
    chat.stop(first.run.id)
    run = done(chat, chat.send("and now", conversation_id=first.conversation.id, requested=SHORT))
    loaded = chat.engine.loaded
    assert loaded is not None
    assert first.run.text() in loaded.tokenizer.decode(list(run.prompt_ids))
    assert run.status is RunStatus.DONE


def test_a_conversation_keeps_its_parameters_for_who_inherits_them(chat: Chat) -> None:
    first = chat.send("hello", requested={**SHORT, "top_k": 9})
    done(chat, first)
    run = done(chat, chat.send("more", conversation_id=first.conversation.id, requested={"seed": 6}, inherit=True))
    assert (run.effective["top_k"], run.effective["max_new_tokens"], run.seed) == (9, 8, 6)
    assert run.explained["top_k"]["source"] == "conversation"


def test_parameters_are_frozen_when_the_message_is_sent(chat: Chat) -> None:
    ahead = chat.send("hello", requested=LONG)
    stops = ["never said"]
    asked = {**SHORT, "stop_strings": stops}
    waiting = chat.send("and you?", requested=asked)
    asked["max_new_tokens"] = 3
    stops.append("a")
    chat.store.update_conversation(waiting.conversation.id, parameters={"max_new_tokens": 1}, system_prompt="Shout.")
    ahead.run.cancel()
    run = done(chat, waiting)
    assert (run.effective["max_new_tokens"], run.effective["stop_strings"]) == (8, ["never said"])
    assert run.requested["stop_strings"] == ["never said"]
    assert chat.engine.desk
    assert "Shout" not in chat.engine.desk.decode(run.prompt_ids)


def test_a_reply_longer_than_the_context_is_fitted_and_explained(chat: Chat) -> None:
    run = done(chat, chat.send("word " * 150, requested={"max_new_tokens": 5_000, "min_new_tokens": 4_000}))
    assert run.status is RunStatus.DONE
    assert len(run.prompt_ids) + run.effective["max_new_tokens"] == 512
    assert run.explained["max_new_tokens"]["kind"] == "clamped"
    assert "context" in run.explained["max_new_tokens"]["reason"]
    assert any(note.startswith("max_new_tokens:") for note in run.notes)


def test_what_came_from_a_preset_is_recorded_so_also_in_another_reply(chat: Chat) -> None:
    chat.store.save_preset("Mine", {"temperature": 1.3, "top_k": 7})
    asked = {**SHORT, "temperature": 1.3, "top_k": 8}
    started = chat.send("hello", requested=asked, preset="Mine")
    first = started.run.result(60).run
    assert chat.wait_until_kept(first.id)
    again = chat.regenerate(started.reply.id, requested=asked).run.result(60).run
    for run in (first, again):
        assert [run.explained[name]["source"] for name in ("temperature", "top_k")] == ["preset", "set"]
    assert chat.store.conversation(started.conversation.id).preset == "Mine"


def test_what_this_model_can_not_do_is_refused_before_anything_is_stored(chat: Chat) -> None:
    done(chat, chat.send("hello", requested=SHORT))
    with pytest.raises(BadParameter, match="use_mtp"):
        chat.send("hello", requested={"use_mtp": True})
    assert len(chat.store.conversations().hits) == 1


def test_a_reply_replays_identically_also_when_it_was_stopped_or_continued(chat: Chat) -> None:
    started = chat.send("hello", requested={**LONG, "do_sample": True, "temperature": 1.5})
    for _, event in started.run.events():
        if isinstance(event, TextDelta):
            break
    chat.stop(started.run.id)
    done(chat, started)
    further = chat.continue_reply(started.reply.id, requested={**SHORT, "do_sample": True, "temperature": 1.5})
    done(chat, further)
    for run_id in (started.run.id, further.run.id):
        replay = chat.check_replay(run_id, chat.replay(run_id), 60)
        assert replay.identical, replay
    assert len(chat.store.conversations().hits) == 1


def test_a_stopped_reply_continued_with_its_seed_goes_on_as_it_would_have(chat: Chat) -> None:
    asked = {"do_sample": True, "temperature": 1.5, "top_k": 5, "seed": 3, "min_new_tokens": 30}
    whole = done(chat, chat.send("hello", requested={**asked, "max_new_tokens": 30}))
    half = chat.send("hello", requested={**asked, "max_new_tokens": 15, "min_new_tokens": 15})
    done(chat, half)
    rest = done(
        chat, chat.continue_reply(half.reply.id, requested={**asked, "max_new_tokens": 15, "min_new_tokens": 15})
    )
    agreeing = sum(a == b for a, b in zip(rest.output_ids, whole.output_ids, strict=True))
    assert agreeing >= 25  # keys and values are read again in one piece, so a rare tie may fall the other way


def test_another_token_is_picked_and_the_reply_goes_on_from_there(chat: Chat) -> None:
    started = chat.send("hello", requested={**SHORT, "do_sample": True, "temperature": 1.5})
    old = done(chat, started)
    other = (old.output_ids[3] + 1) % 250 + 5
    new = done(chat, chat.branch_token(started.reply.id, 3, other))
    assert new.output_ids[:4] == (*old.output_ids[:3], other)
    assert len(new.output_ids) == 4 + 8
    assert new.seed == old.seed
    typed = done(chat, chat.branch_token(started.reply.id, 2, " some words"))
    assert " some words" in chat.store.message(typed.message_id).content
    assert typed.output_ids[:2] == old.output_ids[:2]
    reply = chat.store.branch(started.conversation.id)[-1]
    assert len(reply.siblings) == 3


def test_a_token_outside_the_reply_is_refused(chat: Chat) -> None:
    started = chat.send("hello", requested=SHORT)
    done(chat, started)
    with pytest.raises(RefusedInput, match="no recorded token"):
        chat.branch_token(started.reply.id, 99, 5)
