"""Conversations, runs, presets and settings are kept exactly, listed in order, and destroyed only by purge."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.conversation import Conversation, FinishReason, Message, Role, Run, RunStatus, new_id
from app.errors import NotFound, RefusedInput, StoreError
from app.transfer import ExportFormat
from storage import Store, open_store
from tests.storage import samples


def test_a_conversation_is_kept_as_it_was_given(store: Store) -> None:
    given = Conversation(
        title="Tea",
        model="builtin",
        system_prompt="Be short.",
        parameters={"temperature": 0.5, "stop_strings": ["\n\n"], "min_p": None},
        preset="Creative",
        pinned=True,
        created_at=datetime(2024, 2, 29, 12, 0, 0, 123457, tzinfo=UTC),
    )
    store.create_conversation(given)
    assert store.conversation(given.id) == given


def test_an_id_that_is_taken_is_refused_and_replaces_nothing(store: Store) -> None:
    given = samples.conversation(store, "first")
    with pytest.raises(RefusedInput):
        store.create_conversation(replace(given, title="second"))
    assert store.conversation(given.id).title == "first"


def test_a_message_and_its_run_are_kept_as_they_ended(store: Store, fader_home: Path) -> None:
    talk = samples.conversation(store)
    asked, reply, run = samples.begin(store, talk.id, None, "Why?")
    finished = samples.ended(run)
    store.finish_run(finished, "Because.", b"\x00trace")
    store.close()
    again = open_store(fader_home)
    try:
        assert again.run(run.id) == finished
        assert again.message(reply.id) == replace(reply, content="Because.", run=finished)
        assert asked is not None
        assert again.message(asked.id) == asked
        assert again.trace(run.id) == b"\x00trace"
    finally:
        again.close()


def test_a_seed_beyond_64_bits_and_infinite_values_survive(store: Store) -> None:
    talk = samples.conversation(store)
    _, _, run = samples.begin(store, talk.id, None, "Why?")
    finished = samples.ended(run, seed=2**64 + 1, effective={"seed": 2**64 + 1, "max_time": float("inf")})
    store.finish_run(finished, "")
    assert store.run(run.id) == finished


def test_effective_parameters_without_the_runs_seed_are_left_alone(store: Store) -> None:
    talk = samples.conversation(store)
    for effective, seed in (({"seed": None}, 3), ({"seed": 4}, None), ({"seed": 5}, 6), ({"seed": True}, 1), ({}, 3)):
        _, _, run = samples.begin(store, talk.id, None, "Why?")
        store.finish_run(samples.ended(run, effective=effective, seed=seed), "")
        assert store.run(run.id).effective == effective
        assert type(store.run(run.id).effective.get("seed")) is type(effective.get("seed"))


def test_begin_shows_the_reply_and_flush_keeps_its_text_so_far(store: Store) -> None:
    talk = samples.conversation(store)
    _, reply, run = samples.begin(store, talk.id, None, "Why?")
    assert store.conversation(talk.id).shown_leaf == reply.id
    store.flush_run(run.id, "Be", RunStatus.GENERATING.value)
    assert store.message(reply.id).content == "Be"
    assert store.run(run.id).status is RunStatus.GENERATING


def test_a_late_flush_does_not_undo_the_end(store: Store) -> None:
    talk = samples.conversation(store)
    _, reply, run = samples.begin(store, talk.id, None, "Why?")
    store.finish_run(samples.ended(run), "Because.")
    store.flush_run(run.id, "Be", RunStatus.GENERATING.value)
    assert store.message(reply.id).content == "Because."
    assert store.run(run.id).status is RunStatus.DONE


def test_a_failed_begin_adds_neither_message_nor_run(store: Store) -> None:
    talk = samples.conversation(store)
    asked = samples.question(talk.id, None, "Why?")
    orphan = Message(new_id(), talk.id, "nobody", Role.ASSISTANT, "")
    with pytest.raises(NotFound):
        store.begin_run([asked, orphan], Run(new_id(), orphan.id))
    with pytest.raises(NotFound):
        store.message(asked.id)
    assert store.branch(talk.id) == ()


def test_a_stale_page_can_answer_neither_a_deleted_message_nor_another_conversations(store: Store) -> None:
    one, other = samples.conversation(store), samples.conversation(store)
    asked, reply = samples.exchange(store, one.id, None, "Why?", "Because.")
    with pytest.raises(NotFound, match="another conversation"):
        samples.begin(store, other.id, reply.id, "And?")
    store.trash_message(reply.id, subtree=True)
    with pytest.raises(NotFound, match="deleted"):
        samples.begin(store, one.id, reply.id, "And?")
    assert samples.texts(store, one.id) == ["Why?"]
    assert asked.id == store.conversation(one.id).shown_leaf


def test_unknown_ids_are_not_found(store: Store) -> None:
    for call in (store.conversation, store.message, store.run, store.branch, store.leaf_under, store.messages):
        with pytest.raises(NotFound):
            call("nobody")
    with pytest.raises(NotFound):
        store.update_conversation("nobody", title="x")
    with pytest.raises(NotFound):
        store.flush_run("nobody", "text", "generating")
    with pytest.raises(NotFound):
        store.finish_run(Run("nobody", "nobody"), "text")
    assert store.trace("nobody") is None


def test_update_changes_only_what_is_named(store: Store) -> None:
    talk = samples.conversation(store)
    asked, _ = samples.exchange(store, talk.id, None, "Why?", "Because.")
    before = store.conversation(talk.id)
    after = store.update_conversation(
        talk.id,
        title="New",
        pinned=True,
        parameters={"top_k": 3},
        system_prompt="",
        shown_leaf=asked.id,
        model="m",
        preset="p",
    )
    assert after == store.conversation(talk.id)
    assert after == replace(
        before, title="New", pinned=True, parameters={"top_k": 3}, shown_leaf=asked.id, model="m", preset="p"
    )
    assert store.update_conversation(talk.id) == after


def test_only_a_message_of_the_conversation_can_be_shown(store: Store) -> None:
    one, other = samples.conversation(store), samples.conversation(store)
    asked, _ = samples.exchange(store, one.id, None, "Why?", "Because.")
    with pytest.raises(RefusedInput):
        store.update_conversation(other.id, shown_leaf=asked.id)


def test_the_list_has_pinned_ones_first_then_the_latest_changed(store: Store) -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    for day in range(5):
        at = start + timedelta(days=day)
        store.create_conversation(Conversation(title=str(day), created_at=at, updated_at=at, pinned=day == 1))
    assert samples.titles(store) == ["1", "4", "3", "2", "0"]
    first = store.conversations(limit=2)
    assert ([hit.conversation.title for hit in first.hits], first.more) == (["1", "4"], True)
    last = store.conversations(offset=4, limit=2)
    assert ([hit.conversation.title for hit in last.hits], last.more) == (["0"], False)


def test_a_new_message_moves_a_conversation_up(store: Store) -> None:
    old, _ = samples.conversation(store, "old"), samples.conversation(store, "new")
    samples.exchange(store, old.id, None, "Why?", "Because.")
    assert samples.titles(store) == ["old", "new"]


def test_trash_restore_and_purge(store: Store) -> None:
    talk, kept = samples.conversation(store, "talk"), samples.conversation(store, "kept")
    _, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    store.purge([talk.id])
    assert store.message(reply.id).content == "Because."  # only what is in the trash can be destroyed
    store.trash([talk.id, "nobody"])
    assert samples.titles(store) == ["kept"]
    assert samples.titles(store, trashed=True) == ["talk"]
    assert store.conversation(talk.id).trashed_at is not None
    store.restore([talk.id])
    assert store.conversation(talk.id).trashed_at is None
    store.trash([talk.id])
    store.purge([talk.id, kept.id])
    for call in (lambda: store.conversation(talk.id), lambda: store.message(reply.id)):
        with pytest.raises(NotFound):
            call()
    assert samples.titles(store) == ["kept"]


def test_purge_leaves_no_trace_of_what_was_said(store: Store, fader_home: Path) -> None:
    talk = samples.conversation(store, "Zanzibar title")
    samples.exchange(store, talk.id, None, "Zanzibar question", "Zanzibar answer", {"requested": {"stop": "Zanzibar"}})
    other = samples.conversation(store)
    samples.exchange(store, other.id, None, "Why?", "Because.")
    store.trash([talk.id])
    store.purge([talk.id])
    assert samples.titles(store, "zanzibar") == []
    assert "Zanzibar" not in "".join(store.export(_json()))
    assert store.run(store.branch(other.id)[1].message.run.id).requested == {"temperature": 0.5}  # type: ignore[union-attr]


def _json() -> ExportFormat:
    return ExportFormat.FADER_JSON


def test_added_messages_are_shown_with_their_runs(store: Store) -> None:
    talk, copy = samples.conversation(store), samples.conversation(store, "copy")
    _, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    twin = replace(reply, id=new_id(), conversation_id=copy.id, parent_id=None, run=None)
    assert reply.run is not None
    run = replace(reply.run, id=new_id(), message_id=twin.id)
    store.add_message(twin, run)
    assert store.message(twin.id) == replace(twin, run=run)
    assert store.conversation(copy.id).shown_leaf == twin.id


def test_presets_and_settings(store: Store) -> None:
    assert store.setting("model") is None
    store.save_setting("model", {"name": "ä", "n": [1, None]})
    assert store.setting("model") == {"name": "ä", "n": [1, None]}
    store.save_preset("wild", {"temperature": 1.5})
    store.save_preset("wild", {"temperature": 1.9})
    assert {name: dict(values) for name, values in store.presets().items()} == {"wild": {"temperature": 1.9}}
    store.delete_preset("wild")
    assert store.presets() == {}
    with pytest.raises(NotFound):
        store.delete_preset("wild")


def test_half_a_surrogate_pair_and_a_nul_do_no_harm(store: Store) -> None:
    talk = samples.conversation(store, "half \ud83d title")
    asked, _ = samples.exchange(store, talk.id, None, "nul \x00 half \ud83d", "fine")
    assert store.message(asked.id).content == "nul \x00 half \ufffd"
    assert store.conversation(talk.id).title == "half \ufffd title"
    assert len(store.conversations("half").hits) == 1


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.conversations()
    with pytest.raises(StoreError, match="closed"):
        store.save_setting("a", 1)


def test_an_interrupted_run_keeps_its_text(store: Store, fader_home: Path) -> None:
    talk = samples.conversation(store)
    _, reply, run = samples.begin(store, talk.id, None, "Why?")
    store.flush_run(run.id, "Becau", "generating")
    assert store.interrupt_orphans() == 0  # its process, this one, is alive
    store.close()
    again = open_store(fader_home)
    try:
        kept = again.message(reply.id)
        assert kept.content == "Becau"
        assert kept.run is not None
        assert kept.run.status is RunStatus.INTERRUPTED
        assert kept.run.finished_at is not None
        assert [hit.message_id for hit in again.conversations("becau has:interrupted").hits] == [reply.id]
        again.finish_run(samples.ended(run, finish_reason=FinishReason.LENGTH), "Because")
        assert again.conversations("has:interrupted").hits == ()
        assert [hit.message_id for hit in again.conversations("because").hits] == [reply.id]
    finally:
        again.close()
