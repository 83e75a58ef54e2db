"""Answers to a query: titles that match, then messages that match, each newest first, every conversation once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain

from app.store import Hit, Page
from storage.matching import Match, match
from storage.query import Query
from storage.rows import conversation_of
from storage.snippets import snippet

_NEAR = 20_000
"""How many of the newest messages are read when only punctuation is looked for, which no index knows."""


def answer(db: sqlite3.Connection, query: Query, *, trashed: bool, offset: int, limit: int) -> Page:
    """A page of conversations that match."""
    wanted = match(db, query)
    if wanted.impossible:
        return Page((), more=False)
    found: dict[int, int | None] = {}
    others: set[int] = set()
    for conversation, message in chain(_titles(db, query, wanted), _messages(db, query, wanted)):
        if conversation in found or conversation in others:
            continue
        if _is_trashed(db, conversation) != trashed:
            others.add(conversation)
            continue
        found[conversation] = message
        if len(found) > offset + limit:
            break
    chosen = list(found.items())[offset : offset + limit]
    hits = tuple(_hit(db, query, conversation, message) for conversation, message in chosen)
    return Page(hits, more=len(found) > offset + limit)


def _is_trashed(db: sqlite3.Connection, conversation: int) -> bool:
    return bool(
        db.execute("SELECT trashed_at IS NOT NULL FROM conversations WHERE key = ?", (conversation,)).fetchone()[0]
    )


def _hit(db: sqlite3.Connection, query: Query, conversation: int, message: int | None) -> Hit:
    row = db.execute("SELECT * FROM conversations WHERE key = ?", (conversation,)).fetchone()
    if message is None:
        return Hit(conversation_of(row))
    id_, content = db.execute("SELECT id, content FROM messages WHERE key = ?", (message,)).fetchone()
    return Hit(conversation_of(row), snippet(content, query.words), id_)


_TITLES = """
    SELECT c.key, c.title FROM title_search s CROSS JOIN conversations c ON c.key = s.rowid
    WHERE title_search MATCH ? AND c.updated_at >= ? AND c.created_at < ?
    ORDER BY s.rowid DESC
"""


def _titles(db: sqlite3.Connection, query: Query, wanted: Match) -> Iterator[tuple[int, None]]:
    if not wanted.title:
        return
    for key, title in db.execute(_TITLES, (wanted.title, query.after_stamp, query.before_stamp)):
        if wanted.occurs_in(title) and _has_message(db, query, wanted, key):
            yield key, None


def _has_message(db: sqlite3.Connection, query: Query, wanted: Match, conversation: int) -> bool:
    """Whether a conversation has a message that passes the filters (if there are any)."""
    if not wanted.filters:
        return True
    (oldest, newest) = db.execute(
        "SELECT min(key), max(key) FROM messages WHERE conversation = ?", (conversation,)
    ).fetchone()
    if oldest is None:
        return False
    first, last = query.keys
    expression = " AND ".join(wanted.filters)
    rows = db.execute(_MESSAGES, (expression, max(first, oldest), min(last, newest)))
    return any(row["conversation"] == conversation and _wanted(db, wanted, row["key"]) for row in rows)


_MESSAGES = """
    SELECT m.conversation, m.key FROM message_search s CROSS JOIN messages m ON m.key = s.rowid
    WHERE message_search MATCH ? AND s.rowid BETWEEN ? AND ? ORDER BY s.rowid DESC
"""


def _messages(db: sqlite3.Connection, query: Query, wanted: Match) -> Iterable[tuple[int, int]]:
    """The conversations and keys of messages that match, newest first."""
    if not wanted.message:
        return _punctuation(db, query)
    rows = db.execute(_MESSAGES, (wanted.message, *query.keys))
    rows.row_factory = None  # plain tuples: a frequent word has thousands
    if wanted.listed and not wanted.literal:
        return rows
    return (row for row in rows if _wanted(db, wanted, row[1]) and _occurs(db, wanted, row[1]))


def _wanted(db: sqlite3.Connection, wanted: Match, message: int) -> bool:
    """Whether a message's run has the documents that are wanted, where the expression doesn't say so."""
    if wanted.listed:
        return True
    row = db.execute("SELECT effective, fingerprint FROM runs WHERE message = ?", (message,)).fetchone()
    return row is not None and all(row[column] in keys for column, keys in wanted.documents.items())


def _occurs(db: sqlite3.Connection, wanted: Match, message: int) -> bool:
    """Whether a message has the literal texts (if there are any)."""
    return not wanted.literal or wanted.occurs_in(
        db.execute("SELECT content FROM messages WHERE key = ?", (message,)).fetchone()["content"]
    )


_LITERAL = """
    SELECT m.conversation, m.key, m.content FROM messages m
    WHERE m.indexed AND m.key BETWEEN ? AND ? ORDER BY m.key DESC LIMIT ?
"""


def _punctuation(db: sqlite3.Connection, query: Query) -> Iterator[tuple[int, int]]:
    for conversation, key, content in db.execute(_LITERAL, (*query.keys, _NEAR)):
        if all(word in content for word in query.words):
            yield conversation, key
