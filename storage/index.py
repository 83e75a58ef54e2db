"""The full-text index over titles and messages: what goes into it, and how it is kept true.

Two contentless FTS5 tables, keyed like the rows they index. ``text`` holds words; ``pairs`` holds each Chinese, Japanese or
Korean character and each emoji alone and with its right neighbour, because those scripts put no blanks between words. ``flags``
let filters be part of the same match, which keeps them quick. A contentless table forgets an entry only when
given the very words it was made of: so whatever changes an indexed row calls ``remove`` before and ``add`` afterwards.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise

_SCRIPTS = (
    "\u1100-\u11ff"  # Hangul letters
    "\u2e80-\u2fdf"  # CJK radicals
    "\u3005-\u3007\u3021-\u3029"  # Han iteration mark and numerals
    "\u3041-\u30ff\u31f0-\u31ff"  # kana
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf"  # bopomofo, Hangul letters
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul syllables
    "\u2600-\u27bf\U0001f000-\U0001faff"  # symbols and emoji
    "\U00020000-\U0003ffff"  # Han, rare
)
RUN = re.compile(f"[{_SCRIPTS}]+")
"""A stretch of characters that are indexed one by one and in pairs."""

_TOKENIZER = "unicode61 remove_diacritics 2 categories 'L* N* Co So'"


def create(db: sqlite3.Connection) -> None:
    """Make the two empty index tables."""
    options = f"""content='', prefix='2 3', tokenize="{_TOKENIZER}\""""
    db.execute(f"CREATE VIRTUAL TABLE message_search USING fts5(text, pairs, flags, {options})")
    db.execute(f"CREATE VIRTUAL TABLE title_search USING fts5(text, pairs, {options})")


def normal(text: str) -> str:
    """Text in the form that is indexed and searched: full-width letters and the like become plain ones (NFKC)."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def split(text: str) -> tuple[str, str]:
    """A text as its two columns: words, and characters with pairs."""
    text = normal(text).replace("\x00", " ")
    if text.isascii():
        return text, ""
    runs = RUN.findall(text)
    return (RUN.sub(" ", text), " ".join(sorted(_grams(runs)))) if runs else (text, "")


def _grams(runs: Iterable[str]) -> set[str]:
    grams: set[str] = set()
    for run in runs:
        grams.update(run)
        grams.update(map("".join, pairwise(run)))
    return grams


_ROW = """
    SELECT m.key, m.role, m.content, r.message AS run_key, r.status, r.error, r.effective, r.fingerprint
    FROM messages m LEFT JOIN runs r ON r.message = m.key
"""


def _entry(row: sqlite3.Row) -> tuple[int, str, str, str]:
    text, pairs = split(row["content"])
    return row["key"], text, pairs, " ".join(_flags(row))


def _flags(row: sqlite3.Row) -> Iterator[str]:
    yield f"role{row['role']}"
    if "```" in row["content"]:
        yield "hascode"
    if row["run_key"] is None:
        return
    if row["error"] or row["status"] == "failed":
        yield "haserror"
    if row["status"] in {"stopped", "interrupted"}:
        yield f"has{row['status']}"
    for column in DOCUMENTS:
        if row[column] is not None:
            yield document_flag(column, row[column])


DOCUMENTS = ("effective", "fingerprint")
"""The columns of runs whose documents can be searched for."""


def document_flag(column: str, key: int) -> str:
    """The flag of messages whose run has that document in that column."""
    return f"{column}{key}"


def remove(db: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Take messages out of the index; those that aren't in it are left alone."""
    for key in keys:
        row = db.execute(_ROW + " WHERE m.key = ? AND m.indexed", (key,)).fetchone()
        if row is not None:
            db.execute(
                "INSERT INTO message_search (message_search, rowid, text, pairs, flags) VALUES ('delete', ?, ?, ?, ?)",
                _entry(row),
            )
            db.execute("UPDATE messages SET indexed = 0 WHERE key = ?", (key,))


def add(db: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Put messages that are neither trashed nor being written into the index."""
    for key in keys:
        row = db.execute(
            _ROW + " WHERE m.key = ? AND NOT m.indexed AND m.trashed_at IS NULL AND r.owner IS NULL", (key,)
        ).fetchone()
        if row is not None:
            db.execute("INSERT INTO message_search (rowid, text, pairs, flags) VALUES (?, ?, ?, ?)", _entry(row))
            db.execute("UPDATE messages SET indexed = 1 WHERE key = ?", (key,))


def add_title(db: sqlite3.Connection, key: int, title: str) -> None:
    """Put a conversation's title into the index."""
    db.execute("INSERT INTO title_search (rowid, text, pairs) VALUES (?, ?, ?)", (key, *split(title)))


def remove_title(db: sqlite3.Connection, key: int, title: str) -> None:
    """Take a conversation's title, as it is in the index, out of it."""
    db.execute(
        "INSERT INTO title_search (title_search, rowid, text, pairs) VALUES ('delete', ?, ?, ?)", (key, *split(title))
    )


def rebuild(db: sqlite3.Connection) -> None:
    """Make the index anew from the rows: after a recovery, or when the way to split text has changed."""
    db.execute("INSERT INTO title_search (title_search) VALUES ('delete-all')")
    db.execute("INSERT INTO message_search (message_search) VALUES ('delete-all')")
    db.execute("UPDATE messages SET indexed = 0 WHERE indexed")
    for key, title in db.execute("SELECT key, title FROM conversations ORDER BY key").fetchall():
        add_title(db, key, title)
    add(db, [key for (key,) in db.execute("SELECT key FROM messages ORDER BY key").fetchall()])
