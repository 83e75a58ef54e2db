"""Copies of the conversations: automatic ones in the data folder, and whatever ``fader backup`` and ``fader restore`` are given.

A copy is complete or not there: it is made beside its name, checked, and then moved into place.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from app.errors import DamagedDatabase
from storage.database import Access, connect
from storage.faults import translated

_KEPT = 7


def copy_database(source: Path, target: Path) -> Path:
    """A complete, checked copy of a database that may be in use, as one file that needs no other. Raises StoreError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with translated(target):
        partial.unlink(missing_ok=True)
        try:
            with closing(connect(source, Access(read_only=True))) as read, closing(sqlite3.connect(partial)) as write:
                read.backup(write, pages=-1)
                write.execute("PRAGMA journal_mode = DELETE")
                finding = write.execute("PRAGMA quick_check(1)").fetchone()[0]
            if finding != "ok":
                raise DamagedDatabase(f"{source} is damaged ({finding}), so no copy was made.")
            _to_disk(partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return target


def _to_disk(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def before_migration(path: Path, step: str) -> Path:
    """A copy of the file as it was before a migration."""
    name = f"before-{step}-{datetime.now().astimezone():%Y%m%d-%H%M%S}.db"
    return copy_database(path, path.parent / "backups" / name)
