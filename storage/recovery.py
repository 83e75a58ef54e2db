"""Damaged files: set aside, never overwritten, and what can be read of them saved into a new one.

Rows are read by ranges of their keys: a range that can't be read is halved until only the damaged pages are left out. What the
newest backup has beyond that fills the gaps. The search index is made anew.
"""

from __future__ import annotations

import heapq
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from app.errors import StoreError
from storage import index
from storage.backup import folder, remove_log, sync
from storage.database import Access, connect, transaction
from storage.migrations import migrate

log = logging.getLogger(__name__)

_TABLES = ("documents", "conversations", "messages", "runs", "run_tokens", "traces", "presets", "settings")
"""In an order in which references point backwards."""

_FRESH = ".recovering"
_LAST = 2**62
_ATTEMPTS = 5_000
"""How many ranges of one table are tried."""


def finish_interrupted(path: Path) -> None:
    """Complete a recovery that was interrupted after the damaged file had been moved: its result was ready by then."""
    fresh = path.with_name(path.name + _FRESH)
    if not path.exists() and fresh.exists():
        fresh.replace(path)


def explain_empty(path: Path) -> list[str]:
    """What to tell about a file that has no content although there once were conversations."""
    newest = _newest_backup(path)
    if not path.exists() or newest is None:
        return []
    return [f"{path} was empty. There is a backup: fader restore {newest}"]


def recover(path: Path, why: str) -> list[str]:
    """Set a damaged file aside and put what can be read of it in its place. Returns what to tell the user."""
    log.warning("%s is damaged (%s). What can be read is being recovered; a large file takes minutes.", path, why)
    fresh = path.with_name(path.name + _FRESH)
    fresh.unlink(missing_ok=True)
    try:
        kept = _salvage(path, fresh)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    aside = set_aside(path)
    fresh.replace(path)
    saved = f"{kept['conversations']} conversations with {kept['messages']} messages were recovered."
    return [f"{path} was damaged ({why}). It was set aside as {aside.name}; {saved}"]


def set_aside(path: Path) -> Path:
    """Rename a damaged file together with those that belong to it; the main file last, so that an interruption is harmless."""
    aside = path.with_name(f"{path.name}.damaged-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
    for suffix in ("-wal", "-journal"):
        companion = path.with_name(path.name + suffix)
        if companion.exists() and companion.stat().st_size:
            companion.replace(aside.with_name(aside.name + suffix))
    remove_log(path)
    path.replace(aside)
    return aside


def _salvage(damaged: Path, fresh: Path) -> dict[str, int]:
    """Make ``fresh`` out of what can be read of ``damaged`` and of the newest backup; returns rows by table."""
    with closing(connect(fresh, Access(shared_log=False))) as db:
        migrate(db)
        db.execute("PRAGMA foreign_keys = OFF")
        with transaction(db):
            for source in (damaged, _newest_backup(damaged)):
                if source is not None:
                    _copy_readable(source, db)
            _mend(db)
            index.rebuild(db)
        if db.execute("PRAGMA foreign_key_check").fetchone() is not None:
            raise StoreError(f"What was recovered from {damaged} doesn't fit together; the file was left as it is.")
        kept = {
            "conversations": db.execute("SELECT count(*) FROM conversations").fetchone()[0],
            "messages": db.execute("SELECT count(*) FROM messages").fetchone()[0],
        }
    sync(fresh)
    return kept


def _copy_readable(source: Path, into: sqlite3.Connection) -> None:
    """Add the readable rows of a file that ``into`` doesn't have yet."""
    for options in ("mode=ro", "mode=ro&immutable=1"):
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?{options}", uri=True, isolation_level=None)) as db:
            db.execute(
                "PRAGMA writable_schema = ON"
            )  # reads a file that is shorter than it says, and past broken entries
            db.row_factory = sqlite3.Row
            db.text_factory = lambda data: data.rstrip(b"\0").decode(errors="replace")  # a missing page reads as zeros
            tables = {name for (name,) in _Reading(db, "SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in _TABLES:
                if table in tables:
                    _copy_table(db, into, table)
        if tables:
            return


def _copy_table(db: sqlite3.Connection, into: sqlite3.Connection, table: str) -> None:
    columns = {row["name"]: row["pk"] for row in into.execute(f"PRAGMA table_info({table})")}
    common = [row["name"] for row in _Reading(db, f"PRAGMA table_info({table})") if row["name"] in columns]
    names = ", ".join(common)
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(common))})"  # noqa: S608 (names of our own)
    key = next(name for name, place in columns.items() if place)
    select = f"SELECT {names} FROM {table}"  # noqa: S608 (names of our own)
    rows: Iterable[sqlite3.Row]
    if key in {"key", "message"}:
        rows = _by_ranges(db, f"{select} WHERE {key} BETWEEN ? AND ? ORDER BY {key}", key)
    else:
        rows = _Reading(db, select)
    for row in rows:
        into.execute(insert, tuple(row))


def _by_ranges(db: sqlite3.Connection, query: str, key: str) -> Iterator[sqlite3.Row]:
    """All readable rows: forwards to the first damage, backwards to the last, then the halves of what lies between, the widest
    ranges first, so that an end to the attempts costs little."""
    ranges = [(-_LAST, 0, _LAST)]
    for _ in range(_ATTEMPTS):
        if not ranges:
            return
        _, first, last = heapq.heappop(ranges)
        rows = _Reading(db, query, first, last)
        for row in rows:
            first = row[key] + 1
            yield row
        if rows.whole:
            continue
        for row in _Reading(db, query + " DESC", first, last):
            last = row[key] - 1
            yield row
        middle = (first + last) // 2
        for low, high in ((first, middle), (middle + 1, last)):
            if first < last and low <= high:
                heapq.heappush(ranges, (low - high, low, high))


class _Reading:
    """The rows of a query up to the first that can't be read; ``whole`` afterwards says whether that was all."""

    def __init__(self, db: sqlite3.Connection, query: str, *values: int) -> None:
        self._db, self._query, self._values = db, query, values
        self.whole = False

    def __iter__(self) -> Iterator[sqlite3.Row]:
        try:
            yield from self._db.execute(self._query, self._values)
        except sqlite3.DatabaseError:
            return
        self.whole = True


def _mend(db: sqlite3.Connection) -> None:
    """Make what was read fit together: messages whose conversation is lost get a new one, references to lost rows are cut."""
    for statement in _SENSELESS:
        db.execute(statement)
    db.execute("""
        INSERT INTO conversations (key, id, title, system_prompt, parameters, pinned, created_at, updated_at)
        SELECT conversation, lower(hex(randomblob(16))), 'Recovered conversation', '', '{}', 0, min(created_at), max(created_at)
        FROM messages WHERE conversation NOT IN (SELECT key FROM conversations) GROUP BY conversation""")
    db.execute("""
        UPDATE messages SET parent = NULL WHERE parent IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM messages p WHERE p.key = messages.parent AND p.key < messages.key
                AND p.conversation = messages.conversation)""")
    while db.execute("DELETE FROM run_tokens WHERE base NOT IN (SELECT message FROM run_tokens)").rowcount > 0:
        pass  # what builds on a lost prompt is lost, and so on
    for column in ("fingerprint", "requested", "effective", "explained"):
        db.execute(f"UPDATE runs SET {column} = NULL WHERE {column} NOT IN (SELECT key FROM documents)")  # noqa: S608


_SENSELESS = (
    "DELETE FROM documents WHERE NOT json_valid(body)",
    "DELETE FROM conversations WHERE NOT json_valid(parameters) OR typeof(created_at + updated_at) != 'integer'",
    "DELETE FROM messages WHERE role NOT IN ('user', 'assistant', 'system') OR typeof(created_at) != 'integer'",
    "DELETE FROM runs WHERE message NOT IN (SELECT key FROM messages) OR NOT json_valid(notes) OR NOT json_valid(stats)",
    "DELETE FROM run_tokens WHERE message NOT IN (SELECT message FROM runs)",
    "DELETE FROM traces WHERE message NOT IN (SELECT message FROM runs)",
)
"""Rows that no longer mean anything."""


def _newest_backup(path: Path) -> Path | None:
    """The latest automatic copy of a file, if there is one."""
    copies = sorted(folder(path).glob("*.db"), key=lambda copy: copy.stat().st_mtime)
    return copies[-1] if copies else None
