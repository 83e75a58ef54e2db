"""``fader restore``: put a backup in the place of the conversations, which are copied first."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from app.conversation import new_id
from app.errors import DamagedDatabase, NotFound, RefusedInput, StoreBusy
from app.settings import DATABASE_NAME
from storage import backup, recovery
from storage.database import Access, connect
from storage.faults import translated
from storage.opening import alone, check_version, first_fault
from storage.owners import Owners


def restore(home: Path, copy: Path) -> tuple[str, ...]:
    """Replace the conversations in ``home`` by those in ``copy``; returns what to tell the user.

    Raises NotFound, RefusedInput (it is the file in use), NewerDatabase, DamagedDatabase (the copy is), StoreBusy (a Fader is
    running) or another StoreError; the conversations are then as they were.
    """
    path = home / DATABASE_NAME
    if not copy.is_file():
        raise NotFound(f"There is no file {copy}.")
    if path.exists() and path.samefile(copy):
        raise RefusedInput(f"{copy} is the file with the present conversations; name a backup of it.")
    with translated(path), alone(home):
        if Owners(home / "locks", new_id()).others():
            raise StoreBusy(f"Fader is running on {home}. Close it, then restore.")
        _check(copy)
        fresh = backup.copy_database(copy, path.with_name(path.name + ".restoring"))
        notices = _keep_present(path)
        backup.remove_log(path)
        fresh.replace(path)
    return (*notices, f"The conversations are now those of {copy}.")


def _check(copy: Path) -> None:
    """Raises StoreError unless the copy is a whole file of this or an earlier Fader."""
    with translated(copy), closing(connect(copy, Access(read_only=True))) as db:
        check_version(db, copy)
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            raise DamagedDatabase(f"{copy} is empty.")
        if (why := first_fault(db, seconds=None)) is not None:
            raise DamagedDatabase(f"{copy} is damaged ({why}). The conversations were left as they are.")


def _keep_present(path: Path) -> list[str]:
    """Copy the present conversations, or set their file aside when it is too damaged to copy."""
    if not path.exists() or path.stat().st_size == 0:
        return []
    try:
        kept = backup.before(path, "restore")
    except (DamagedDatabase, sqlite3.DatabaseError):
        kept = recovery.set_aside(path)
    return [f"Those of before are in {kept}."]
