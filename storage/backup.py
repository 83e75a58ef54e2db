"""Copies of the conversations: automatic ones in the data folder, and what ``fader backup`` and ``fader restore`` are given.

A copy is complete or not there: it is made under another name, checked, and then moved into place.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from threading import Event, Thread

from app.errors import DamagedDatabase, FaderError, StoreFull
from storage.database import Access, connect
from storage.faults import translated
from storage.owners import FileLock

log = logging.getLogger(__name__)

_KEPT = 7
"""Daily copies that are kept."""

_ROOM = 256 * 2**20
"""Bytes that an automatic copy leaves free."""

_FIRST_S, _INTERVAL_S = 5.0, 3600.0


def folder(path: Path) -> Path:
    """Where the automatic copies of the database at ``path`` are."""
    return path.parent / "backups"


def copy_database(source: Path, target: Path) -> Path:
    """A complete, checked copy of a database that may be in use, as one file that needs no other. Raises StoreError."""
    partial = target.with_name(target.name + ".partial")
    with translated(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        try:
            with closing(connect(source, Access(read_only=True))) as read, closing(sqlite3.connect(partial)) as write:
                read.backup(write, pages=-1)
                write.execute("PRAGMA journal_mode = DELETE")
                if (why := _fault(write)) is not None:
                    raise DamagedDatabase(
                        f"{source} is damaged ({why}), so no copy was made. Start Fader again: it recovers what can be read."
                    )
            sync(partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return target


def _fault(db: sqlite3.Connection) -> str | None:
    try:
        finding = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
            raise
        return str(error)
    return None if finding == "ok" else finding


def sync(path: Path) -> None:
    """Wait until a file is on the disk, so that a loss of power after a rename can't leave it empty."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def before(path: Path, what: str) -> Path:
    """A copy of the file as it was before a migration or a restore."""
    return copy_database(path, folder(path) / f"before-{what}-{datetime.now().astimezone():%Y%m%d-%H%M%S}.db")


def daily(path: Path) -> Path | None:
    """Today's copy, unless there is one; older ones beyond the last seven are removed. None when nothing was to do.

    Raises StoreFull when the copy would take the space that the conversations need.
    """
    target = folder(path) / f"daily-{datetime.now().astimezone():%Y%m%d}.db"
    lock = FileLock(path.parent / "locks" / "_backup.lock")
    if target.exists() or not lock.acquire():
        return None
    try:
        for left in folder(path).glob("*.partial"):
            left.unlink()  # of a process that was killed: nobody else is here
        _leave_room(path)
        copy_database(path, target)
        for old in sorted(folder(path).glob("daily-*.db"))[:-_KEPT]:
            old.unlink()
    finally:
        lock.release()
    return target


def _leave_room(path: Path) -> None:
    if shutil.disk_usage(path.parent).free < path.stat().st_size + _ROOM:
        raise StoreFull(f"There is not enough space beside {path} for its daily backup.")


class DailyBackups:
    """Makes the daily copy in the background while the store is open; one that fails is tried again within the hour.

    ``damage``: what was found when the whole file was checked in doing so, None if nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.damage: str | None = None
        self._closing = Event()
        self._thread = Thread(target=self._work, name="store-backup", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; a copy being made is finished first."""
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        pause = _FIRST_S
        while not self._closing.wait(pause):
            pause = _INTERVAL_S
            try:
                daily(self._path)
            except DamagedDatabase as error:
                self.damage = str(error)
                log.error("%s", error)  # noqa: TRY400 (the sentence says it all)
            except (FaderError, OSError) as error:
                log.warning("Today's backup could not be made: %s", error)


def remove_log(path: Path) -> None:
    """Remove what SQLite keeps beside a database that is closed and about to be replaced."""
    for suffix in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
