"""Conversations as rows: adding, changing, the list, the trash. Every function works inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from app.conversation import EMPTY, Conversation, Json, Message, now
from app.errors import RefusedInput
from app.store import Hit, Page
from storage import index, search
from storage import messages as tree
from storage.keys import free_conversation_key
from storage.query import parse
from storage.rows import clean, conversation_of, dump, optional_stamp, stamp
from storage.tree import Trashed


def add(
    db: sqlite3.Connection,
    conversation: Conversation,
    messages: Sequence[Message],
    traces: Mapping[str, bytes] = EMPTY,
    trash: Mapping[str, Trashed] = EMPTY,
) -> None:
    """Add a conversation with its messages (see ``messages.add_whole``)."""
    key = free_conversation_key(db, conversation.created_at)
    db.execute(
        """INSERT INTO conversations (key, id, title, model, system_prompt, parameters, preset, shown_leaf, pinned, created_at,
               updated_at, trashed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            key,
            conversation.id,
            clean(conversation.title),
            None if conversation.model is None else clean(conversation.model),
            clean(conversation.system_prompt),
            dump(conversation.parameters),
            clean(conversation.preset),
            conversation.shown_leaf,
            int(conversation.pinned),
            stamp(conversation.created_at),
            stamp(conversation.updated_at),
            optional_stamp(conversation.trashed_at),
        ),
    )
    index.add_title(db, key, clean(conversation.title))
    tree.add_whole(db, key, messages, traces, trash)


def get(db: sqlite3.Connection, conversation_id: str) -> Conversation:
    """One conversation; raises NotFound."""
    return conversation_of(tree.conversation_row(db, conversation_id))


def update(db: sqlite3.Connection, conversation_id: str, changes: Mapping[str, Json]) -> Conversation:
    """Change the named fields and return the result. A new title, pin or branch on display doesn't count as activity."""
    row = tree.conversation_row(db, conversation_id)
    if "shown_leaf" in changes:
        _check_leaf(db, row["key"], changes["shown_leaf"])
    if "title" in changes:
        index.remove_title(db, row["key"], row["title"])
        index.add_title(db, row["key"], clean(changes["title"]))
    for name, value in changes.items():
        db.execute(f"UPDATE conversations SET {_FIELDS[name]} = ? WHERE key = ?", (_stored(value), row["key"]))  # noqa: S608
    return get(db, conversation_id)


_FIELDS = {name: name for name in ("title", "system_prompt", "parameters", "preset", "model", "pinned", "shown_leaf")}


def _stored(value: Json) -> str | int:
    if isinstance(value, bool):
        return int(value)
    return clean(value) if isinstance(value, str) else dump(value)


def _check_leaf(db: sqlite3.Connection, conversation: int, leaf_id: str) -> None:
    if tree.tree(db, conversation).find(leaf_id) is None:
        raise RefusedInput(f"Message {leaf_id} does not belong to this conversation.")


def trash(db: sqlite3.Connection, conversation_ids: Sequence[str]) -> None:
    """Move conversations to the trash; unknown and trashed ones are left alone."""
    at = stamp(now())
    db.executemany(
        "UPDATE conversations SET trashed_at = ? WHERE id = ? AND trashed_at IS NULL",
        [(at, id_) for id_ in conversation_ids],
    )


def restore(db: sqlite3.Connection, conversation_ids: Sequence[str]) -> None:
    """Take conversations out of the trash."""
    db.executemany("UPDATE conversations SET trashed_at = NULL WHERE id = ?", [(id_,) for id_ in conversation_ids])


def purge(db: sqlite3.Connection, conversation_ids: Sequence[str]) -> None:
    """Destroy trashed conversations with all they hold; others are left alone."""
    for conversation_id in conversation_ids:
        row = db.execute(
            "SELECT key, title FROM conversations WHERE id = ? AND trashed_at IS NOT NULL", (conversation_id,)
        ).fetchone()
        if row is not None:
            _destroy(db, row["key"], row["title"])


def _destroy(db: sqlite3.Connection, key: int, title: str) -> None:
    keys = [key for (key,) in db.execute("SELECT key FROM messages WHERE conversation = ?", (key,))]
    documents = {
        document
        for row in db.execute(
            """SELECT fingerprint, requested, effective, explained FROM runs
               WHERE message IN (SELECT key FROM messages WHERE conversation = ?)""",
            (key,),
        )
        for document in row
        if document is not None
    }
    index.remove(db, keys)
    index.remove_title(db, key, title)
    db.execute("DELETE FROM messages WHERE conversation = ?", (key,))
    db.execute("DELETE FROM conversations WHERE key = ?", (key,))
    db.executemany(
        """DELETE FROM documents WHERE key = :key
           AND NOT EXISTS (SELECT 1 FROM runs WHERE fingerprint = :key) AND NOT EXISTS (SELECT 1 FROM runs WHERE requested = :key)
           AND NOT EXISTS (SELECT 1 FROM runs WHERE effective = :key) AND NOT EXISTS (SELECT 1 FROM runs WHERE explained = :key)
        """,
        [{"key": document} for document in documents],
    )


def page(db: sqlite3.Connection, query: str, *, trashed: bool, offset: int, limit: int) -> Page:
    """A page of the list, or of the answers to a query."""
    wanted = parse(query)
    if wanted.matches_messages:
        return search.answer(db, wanted, trashed=trashed, offset=offset, limit=limit)
    rows = db.execute(
        _TRASHED if trashed else _LISTED,
        {"after": wanted.after_stamp, "before": wanted.before_stamp, "limit": limit + 1, "offset": offset},
    ).fetchall()
    return Page(tuple(Hit(conversation_of(row)) for row in rows[:limit]), more=len(rows) > limit)


_LISTED = """
    SELECT * FROM conversations WHERE trashed_at IS NULL AND updated_at >= :after AND created_at < :before
    ORDER BY pinned DESC, updated_at DESC, key DESC LIMIT :limit OFFSET :offset
"""
_TRASHED = """
    SELECT * FROM conversations WHERE trashed_at IS NOT NULL AND updated_at >= :after AND created_at < :before
    ORDER BY trashed_at DESC, key DESC LIMIT :limit OFFSET :offset
"""
