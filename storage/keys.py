"""Integer keys that rise with time: milliseconds since 1970, moved up to the next free number when taken.

Search results and siblings are ordered by key, so a search walks the newest first without sorting, and ``after:`` is a range.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime

from storage.rows import stamp

_MICROSECONDS = 1000


def key_at(moment: datetime) -> int:
    """The first key of a moment, never negative."""
    return max(stamp(moment) // _MICROSECONDS, 0)


def free_conversation_key(db: sqlite3.Connection, moment: datetime) -> int:
    """A free key for a conversation made at ``moment``."""
    key = key_at(moment)
    for (taken,) in db.execute("SELECT key FROM conversations WHERE key >= ? ORDER BY key", (key,)):
        if taken > key:
            break
        key += 1
    return key


def free_message_key(db: sqlite3.Connection, moment: datetime, conversation: int) -> int:
    """A free key for a message made at ``moment``, above all others of its conversation."""
    (newest,) = db.execute("SELECT max(key) FROM messages WHERE conversation = ?", (conversation,)).fetchone()
    key = key_at(moment) if newest is None else max(key_at(moment), newest + 1)
    for (taken,) in db.execute("SELECT key FROM messages WHERE key >= ? ORDER BY key", (key,)):
        if taken > key:
            break
        key += 1
    return key
