"""The tree of messages: siblings, paging between them, deleting with exact undo."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversation import ShownMessage
from app.errors import NotFound
from storage import Store, open_store
from tests.storage import samples


def test_an_edit_and_a_regeneration_make_siblings_and_destroy_nothing(store: Store) -> None:
    talk = samples.conversation(store)
    first, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    second = samples.regenerate(store, talk.id, first.id, "Therefore.")
    edited, third = samples.exchange(store, talk.id, None, "How?", "So.")
    shown = store.branch(talk.id)
    assert [(one.message.content, one.siblings, one.place) for one in shown] == [
        ("How?", (first.id, edited.id), 1),
        ("So.", (third.id,), 0),
    ]
    assert [(one.message.content, one.place) for one in store.branch(talk.id, reply.id)] == [
        ("Why?", 0),
        ("Because.", 0),
    ]
    assert [(one.message.content, one.place) for one in store.branch(talk.id, second.id)] == [
        ("Why?", 0),
        ("Therefore.", 1),
    ]


def test_paging_to_a_sibling_leads_to_its_newest_leaf(store: Store) -> None:
    talk = samples.conversation(store)
    first, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    older = samples.exchange(store, talk.id, reply.id, "Really?", "Yes.")[1]
    samples.exchange(store, talk.id, None, "How?", "So.")
    assert store.leaf_under(first.id) == older.id
    newer = samples.regenerate(store, talk.id, first.id, "Therefore.")
    assert store.leaf_under(first.id) == newer.id
    assert store.leaf_under(newer.id) == newer.id


def test_the_branch_on_display_is_remembered(store: Store, fader_home: Path) -> None:
    talk = samples.conversation(store)
    _, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    samples.exchange(store, talk.id, None, "How?", "So.")
    store.update_conversation(talk.id, shown_leaf=reply.id)
    store.close()
    again = open_store(fader_home)
    assert samples.texts(again, talk.id) == ["Why?", "Because."]
    again.close()


def test_without_a_remembered_leaf_the_newest_is_shown(store: Store) -> None:
    talk = samples.conversation(store)
    assert store.branch(talk.id) == ()
    whole = store.messages(talk.id)
    assert whole == ()


def test_deleting_one_message_moves_its_children_up(store: Store) -> None:
    talk = samples.conversation(store)
    _, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    further, _ = samples.exchange(store, talk.id, reply.id, "Really?", "Yes.")
    store.trash_message(reply.id, subtree=False)
    assert samples.texts(store, talk.id) == ["Why?", "Really?", "Yes."]
    assert store.message(further.id).parent_id == store.branch(talk.id)[0].message.id
    store.restore_message(reply.id)
    assert samples.texts(store, talk.id) == ["Why?", "Because.", "Really?", "Yes."]
    assert store.message(further.id).parent_id == reply.id


def test_deleting_a_subtree_shows_what_is_nearest_and_undo_brings_all_back(store: Store) -> None:
    talk = samples.conversation(store)
    asked, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    other = samples.regenerate(store, talk.id, asked.id, "Therefore.")
    samples.exchange(store, talk.id, other.id, "Really?", "Yes.")
    before = store.branch(talk.id)
    store.trash_message(other.id, subtree=True)
    assert samples.texts(store, talk.id) == ["Why?", "Because."]
    assert store.conversation(talk.id).shown_leaf == reply.id
    assert store.message(other.id).trashed_at is not None
    store.restore_message(other.id)
    assert store.branch(talk.id) == before


def test_undo_does_not_pull_the_reader_back(store: Store) -> None:
    talk = samples.conversation(store)
    asked, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    store.trash_message(reply.id, subtree=True)
    fresh = samples.regenerate(store, talk.id, asked.id, "Therefore.")
    store.restore_message(reply.id)
    assert store.conversation(talk.id).shown_leaf == fresh.id
    assert store.branch(talk.id)[1].siblings == (reply.id, fresh.id)


def test_undo_of_a_subtree_leaves_what_was_deleted_before_in_the_trash(store: Store) -> None:
    talk = samples.conversation(store)
    asked, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    gone = samples.regenerate(store, talk.id, asked.id, "Therefore.")
    store.trash_message(gone.id, subtree=False)
    store.trash_message(asked.id, subtree=True)
    assert store.branch(talk.id) == ()
    store.restore_message(asked.id)
    assert store.branch(talk.id, reply.id)[1].siblings == (reply.id,)
    store.restore_message(gone.id)
    assert store.branch(talk.id, reply.id)[1].siblings == (reply.id, gone.id)


def test_deleting_twice_and_restoring_what_is_there_change_nothing(store: Store) -> None:
    talk = samples.conversation(store)
    asked, reply = samples.exchange(store, talk.id, None, "Why?", "Because.")
    before = store.branch(talk.id)
    store.restore_message(asked.id)
    store.trash_message(reply.id, subtree=False)
    store.trash_message(reply.id, subtree=True)
    store.restore_message(reply.id)
    assert store.branch(talk.id) == before
    with pytest.raises(NotFound):
        store.trash_message("nobody", subtree=True)
    with pytest.raises(NotFound):
        store.restore_message("nobody")


@settings(max_examples=25)
@given(st.data())
def test_undoing_deletions_in_reverse_order_restores_everything(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        try:
            _delete_and_undo(store, data)
        finally:
            store.close()


def _delete_and_undo(store: Store, data: st.DataObject) -> None:
    talk = samples.conversation(store)
    ids: list[str] = []
    for _ in range(data.draw(st.integers(1, 6))):
        parent = data.draw(st.sampled_from([None, *ids]))
        asked, reply = samples.exchange(store, talk.id, parent, f"question {len(ids)}", f"reply {len(ids)}")
        ids += [asked.id, reply.id]
    states = [_state(store, talk.id, ids)]
    deleted = []
    for id_ in data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=5)):
        if store.message(id_).trashed_at is None:
            store.trash_message(id_, subtree=data.draw(st.booleans()))
            deleted.append(id_)
            states.append(_state(store, talk.id, ids))
    for id_ in reversed(deleted):
        assert states.pop() == _state(store, talk.id, ids)
        store.restore_message(id_)
    assert states.pop() == _state(store, talk.id, ids)


def _state(
    store: Store, conversation_id: str, ids: list[str]
) -> tuple[tuple[ShownMessage, ...], list[str | None], int]:
    """All that a user could notice: the branch, everybody's parent, what a search finds."""
    parents = [store.message(id_).parent_id for id_ in ids if store.message(id_).trashed_at is None]
    found = sum(len(store.conversations(f"{word} {n}").hits) for n in range(len(ids)) for word in ("question", "reply"))
    return store.branch(conversation_id), parents, found
