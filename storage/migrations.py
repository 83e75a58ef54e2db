"""The history of the file's layout, one small named step each; a new file and an old one go through the same door.

Never change a step that has been released: add one. Each runs once, in a transaction together with the note that it ran.
"""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database, Migrations

from storage import index

APPLICATION_ID = 0x46616472
"""``Fadr``: tells a Fader file from any other SQLite file (PRAGMA application_id)."""

migrations = Migrations("fader")


def pending(db: sqlite3.Connection) -> list[str]:
    """The names of the steps that a file still lacks."""
    return [step.name for step in migrations.pending(Database(db, execute_plugins=False))]


def applied(db: sqlite3.Connection) -> list[str]:
    """The names of the steps that made a file what it is, those of a later Fader too."""
    return [step.name for step in migrations.applied(Database(db, execute_plugins=False))]


def known() -> frozenset[str]:
    """The names of all steps that this Fader knows."""
    return frozenset(step.name for step in migrations._migrations)  # noqa: SLF001 (there is no public list)


def migrate(db: sqlite3.Connection, *, stop_before: str | None = None) -> None:
    """Bring a file up to date. It is marked as Fader's first, so that one whose making was interrupted is known again."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    migrations.apply(Database(db, execute_plugins=False), stop_before=stop_before)


@migrations(name="001_conversations")
def conversations(db: Database) -> None:
    """Conversations and the tree of their messages.

    ``key`` is an integer that rises with time (milliseconds since 1970, made unique): lists and search results are ordered by
    it, and references are an eighth of the size of an opaque id. ``trashed_with`` is the key of the message whose deletion took
    this one along, so that undo restores exactly those; ``shown_before`` is the shown leaf that the deletion replaced by
    ``shown_instead``.
    ``indexed`` says that the search index holds the message's present text: a running reply is indexed when it ends.
    """
    db.conn.execute("""
        CREATE TABLE conversations (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,
            model TEXT,
            system_prompt TEXT NOT NULL,
            parameters TEXT NOT NULL,
            shown_leaf TEXT,
            pinned INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            trashed_at INTEGER
        )""")
    db.conn.execute("""
        CREATE INDEX conversations_listed ON conversations (pinned DESC, updated_at DESC, key DESC) WHERE trashed_at IS NULL""")
    db.conn.execute(
        "CREATE INDEX conversations_trashed ON conversations (trashed_at DESC) WHERE trashed_at IS NOT NULL"
    )
    db.conn.execute("""
        CREATE TABLE messages (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            conversation INTEGER NOT NULL REFERENCES conversations (key),
            parent INTEGER REFERENCES messages (key),
            role TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            trashed_at INTEGER,
            trashed_with INTEGER,
            shown_before TEXT,
            shown_instead TEXT,
            indexed INTEGER NOT NULL DEFAULT 0,
            content TEXT NOT NULL
        )""")
    db.conn.execute("CREATE INDEX messages_of_conversation ON messages (conversation)")
    db.conn.execute("CREATE INDEX messages_below ON messages (parent)")


@migrations(name="002_runs")
def runs(db: Database) -> None:
    """How each reply came about: one run per reply, so the message's key serves as the run's.

    What many runs have in common stands in ``documents`` once. Token ids (see ``tokens``) and traces are large: tables of
    their own. ``owner`` is the process that works on the run and NULL once it has ended.
    """
    db.conn.execute("""
        CREATE TABLE documents (
            key INTEGER PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            body TEXT NOT NULL
        )""")
    db.conn.execute("""
        CREATE TABLE runs (
            message INTEGER PRIMARY KEY REFERENCES messages (key) ON DELETE CASCADE,
            id TEXT NOT NULL UNIQUE,
            status TEXT NOT NULL,
            finish_reason TEXT,
            fingerprint INTEGER REFERENCES documents (key),
            requested INTEGER REFERENCES documents (key),
            effective INTEGER REFERENCES documents (key),
            explained INTEGER REFERENCES documents (key),
            notes TEXT NOT NULL,
            seed TEXT,
            stats TEXT NOT NULL,
            error TEXT,
            created_at INTEGER NOT NULL,
            finished_at INTEGER,
            owner TEXT
        )""")
    for column in ("fingerprint", "requested", "effective", "explained"):
        db.conn.execute(f"CREATE INDEX runs_by_{column} ON runs ({column})")
    db.conn.execute("CREATE INDEX runs_unfinished ON runs (owner) WHERE owner IS NOT NULL")
    db.conn.execute("""
        CREATE TABLE run_tokens (
            message INTEGER PRIMARY KEY REFERENCES runs (message) ON DELETE CASCADE,
            base INTEGER,
            shared INTEGER NOT NULL,
            prompt_ids BLOB,
            output_ids BLOB
        )""")
    db.conn.execute("""
        CREATE TABLE traces (
            message INTEGER PRIMARY KEY REFERENCES runs (message) ON DELETE CASCADE,
            data BLOB NOT NULL
        )""")


@migrations(name="003_presets_and_settings")
def presets_and_settings(db: Database) -> None:
    """What the user named, and what the page remembers."""
    db.conn.execute("CREATE TABLE presets (name TEXT PRIMARY KEY, parameters TEXT NOT NULL) WITHOUT ROWID")
    db.conn.execute("CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")


@migrations(name="004_search")
def search(db: Database) -> None:
    """Full-text search over titles and messages (see ``index``), filled from what is there."""
    index.create(db.conn)
    index.rebuild(db.conn)


@migrations(name="005_preset_of_a_conversation")
def preset_of_a_conversation(db: Database) -> None:
    """The name of the preset that a conversation's parameters began with, so that they can be told from what was set by hand."""
    db.conn.execute("ALTER TABLE conversations ADD COLUMN preset TEXT NOT NULL DEFAULT ''")
