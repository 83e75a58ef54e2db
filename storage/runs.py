"""Runs as rows: begun, flushed, finished, interrupted. Every function works inside the caller's transaction."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping

from app.conversation import Json, Run, RunStatus, now
from app.errors import NotFound
from storage import index, tokens
from storage.rows import (
    RUN_COLUMNS,
    RUN_JOINS,
    Row,
    clean,
    dump,
    dump_stats,
    optional_stamp,
    run_of,
    stamp,
    storable_effective,
)

_COLUMNS = (
    "id", "status", "finish_reason", "fingerprint", "requested", "effective", "explained", "notes", "seed", "stats", "error",
    "created_at", "finished_at", "owner",
)  # fmt: skip
_PLACES = ", ".join(f":{name}" for name in _COLUMNS)
_INSERT = f"INSERT INTO runs (message, {', '.join(_COLUMNS)}) VALUES (:message, {_PLACES})"  # noqa: S608 (names of our own)
_UPDATE = f"UPDATE runs SET {', '.join(f'{name} = :{name}' for name in _COLUMNS)} WHERE message = :message"  # noqa: S608


def insert(db: sqlite3.Connection, message: int, run: Run, *, owner: str | None, trace: bytes | None = None) -> None:
    """Add the run of a message. ``owner``: the process that works on it, None for one that has ended."""
    db.execute(_INSERT, _values(db, message, run, owner))
    tokens.save(db, message, run.prompt_ids, run.output_ids)
    _keep_trace(db, message, trace)


def flush(db: sqlite3.Connection, run_id: str, content: str, status: str) -> None:
    """Keep a running reply's text so far; one that has ended is left alone. Raises NotFound."""
    row = _find(db, run_id)
    if row["owner"] is not None:
        db.execute("UPDATE messages SET content = ? WHERE key = ?", (clean(content), row["message"]))
        db.execute("UPDATE runs SET status = ? WHERE message = ?", (RunStatus(status).value, row["message"]))


def finish(db: sqlite3.Connection, run: Run, content: str, trace: bytes | None) -> None:
    """Keep a run as it ended, with the reply's text. Raises NotFound."""
    message = _find(db, run.id)["message"]
    index.remove(db, [message])  # it is in the index if another process took this one for dead
    db.execute(_UPDATE, _values(db, message, run, None))
    tokens.save(db, message, run.prompt_ids, run.output_ids)
    _keep_trace(db, message, trace)
    db.execute("UPDATE messages SET content = ? WHERE key = ?", (clean(content), message))
    db.execute(
        "UPDATE conversations SET updated_at = ? WHERE key = (SELECT conversation FROM messages WHERE key = ?)",
        (stamp(now()), message),
    )
    index.add(db, [message])


def interrupt(db: sqlite3.Connection, alive: Callable[[str], bool]) -> int:
    """Mark runs whose owner isn't alive as interrupted, keeping their text; returns how many."""
    owners = [owner for (owner,) in db.execute("SELECT DISTINCT owner FROM runs WHERE owner IS NOT NULL")]
    dead = [owner for owner in owners if not alive(owner)]
    count = 0
    for owner in dead:
        keys = [key for (key,) in db.execute("SELECT message FROM runs WHERE owner = ?", (owner,))]
        db.execute(
            "UPDATE runs SET status = ?, finished_at = ?, owner = NULL WHERE owner = ?",
            (RunStatus.INTERRUPTED.value, stamp(now()), owner),
        )
        index.add(db, keys)
        count += len(keys)
    return count


def get(db: sqlite3.Connection, run_id: str) -> Run:
    """One run; raises NotFound."""
    row = db.execute(
        f"SELECT {RUN_COLUMNS}, m.id AS message_id FROM runs r JOIN messages m ON m.key = r.message {RUN_JOINS}"  # noqa: S608
        " WHERE r.id = ?",
        (run_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no run {run_id}.")
    return run_of(row, row["message_id"], tokens.load(db, row["run_key"], {}))


def trace(db: sqlite3.Connection, run_id: str) -> bytes | None:
    """The trace of a run, if one was kept."""
    row = db.execute(
        "SELECT t.data FROM traces t JOIN runs r ON r.message = t.message WHERE r.id = ?", (run_id,)
    ).fetchone()
    return None if row is None else bytes(row["data"])


def _find(db: sqlite3.Connection, run_id: str) -> Row:
    row: Row | None = db.execute("SELECT message, owner FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no run {run_id}: its conversation has been deleted for good.")
    return row


def _values(db: sqlite3.Connection, message: int, run: Run, owner: str | None) -> Mapping[str, Json]:
    return {
        "message": message,
        "id": run.id,
        "status": run.status.value,
        "finish_reason": run.finish_reason and run.finish_reason.value,
        "fingerprint": _document(db, run.model_fingerprint),
        "requested": _document(db, run.requested),
        "effective": _document(db, storable_effective(run)),
        "explained": _document(db, run.explained),
        "notes": dump(list(run.notes)),
        "seed": None if run.seed is None else str(run.seed),
        "stats": dump_stats(run.stats),
        "error": None if run.error is None else clean(run.error),
        "created_at": stamp(run.created_at),
        "finished_at": optional_stamp(run.finished_at),
        "owner": owner,
    }


def _document(db: sqlite3.Connection, value: Mapping[str, Json]) -> int | None:
    """The key under which a JSON object is kept, adding it if it is new; None for an empty one."""
    if not value:
        return None
    body = dump(value)
    digest = hashlib.sha256(body.encode()).digest()[:16]
    row = db.execute("SELECT key FROM documents WHERE digest = ?", (digest,)).fetchone()
    if row is not None:
        return int(row[0])
    return db.execute("INSERT INTO documents (digest, body) VALUES (?, ?)", (digest, body)).lastrowid


def _keep_trace(db: sqlite3.Connection, message: int, data: bytes | None) -> None:
    if data is not None:
        db.execute("INSERT OR REPLACE INTO traces (message, data) VALUES (?, ?)", (message, data))
