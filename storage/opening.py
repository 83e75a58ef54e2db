"""Opening the data folder's file: nothing is created, migrated or recovered before it is known to be safe.

In order: may it be written; is it ours and not from a later Fader (else refused untouched); is it whole (else set aside and
recovered); a backup, then the migrations. One process at a time goes through this, under a lock.
"""

from __future__ import annotations

import errno
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from app.conversation import new_id
from app.errors import DamagedDatabase, NewerDatabase, StoreBusy, StoreError, StoreFull, StoreReadOnly
from app.settings import DATABASE_NAME
from storage import backup, migrations, recovery, runs
from storage.conversations import Store
from storage.database import Access, Database, connect
from storage.faults import translate, translated
from storage.filesystems import network_file_system
from storage.owners import Owners, exclusively

_OPENING_S = 60.0
_CHECK_S = 0.5
_HEADER = b"SQLite format 3\x00"


def open_store(home: Path) -> Store:
    """Open (or begin) the conversations in the data folder ``home``.

    ``Store.notices`` says what the user must be told. Raises NewerDatabase, DamagedDatabase, StoreBusy, StoreFull, StoreReadOnly
    or another StoreError; the file is then as it was.
    """
    path = home / DATABASE_NAME
    owners = Owners(home / "locks", new_id())
    try:
        with translated(path), alone(home):
            _check_writable(path)
            owners.enter()
            return _open(path, owners)
    except StoreReadOnly:
        owners.leave()
        if not path.exists():
            raise
        return _open_to_read(path)
    except BaseException:
        owners.leave()
        raise


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Hold the data folder's lock for opening inside; raises StoreBusy."""
    _make_folder(home)
    with exclusively(home / "locks" / "_opening.lock", seconds=_OPENING_S):
        yield


def _make_folder(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreReadOnly
        why = f"The data folder {home} can't be made: {error.strerror}. Set FADER_HOME to a folder that can be written to."
        raise kind(why) from error


def _check_writable(path: Path) -> None:
    if path.exists():
        with path.open("r+b"):
            pass


def _open(path: Path, owners: Owners) -> Store:
    notices: list[str] = []
    network = network_file_system(path.parent)
    access = Access(shared_log=network is None)
    if network:
        notices.append(
            f"The data folder {path.parent} is on a network file system ({network}). Fader works there, more slowly; use it from "
            "one machine at a time."
        )
    notices += _make_sound(path, owners)
    with closing(connect(path, access)) as db:
        notices += _migrate(db, path, owners)
    database = Database(path, access)
    try:
        database.write(partial(runs.interrupt, alive=owners.alive))
    except StoreError as error:  # what is there can be read all the same
        notices.append(str(error))
    return Store(database, owners, notices, backup.DailyBackups(path))


def _open_to_read(path: Path) -> Store:
    """Open a file that can't be written: everything can be looked at, every change is refused with the reason."""
    notice = f"{path} can only be read: there is no permission to write it. Nothing new can be kept."
    for access in (Access(read_only=True), Access(read_only=True, immutable=True)):
        try:
            with closing(connect(path, access)) as db:
                check_version(db, path)
                if migrations.pending(db):
                    raise StoreReadOnly(
                        f"{path} is of an earlier Fader and can't be brought up to date without permission to write."
                    )
        except sqlite3.Error as error:
            failure = error
        else:
            return Store(Database(path, access), None, [notice])
    raise translate(failure, path) from failure


def _make_sound(path: Path, owners: Owners) -> list[str]:
    """Look at the file before anything is written to it; recover a damaged one. Returns what to tell the user."""
    recovery.finish_interrupted(path)
    if not path.exists() or path.stat().st_size == 0:
        return recovery.explain_empty(path)
    try:
        why = _fault(path)
    except sqlite3.DatabaseError as error:
        if not isinstance(translate(error, path), DamagedDatabase):
            raise
        why = str(error)
    if why is None:
        return []
    if owners.others():
        raise DamagedDatabase(f"{path} is damaged ({why}). Close every other Fader and start again to recover it.")
    return recovery.recover(path, why)


def _fault(path: Path) -> str | None:
    """What is wrong with a file, None for a sound one. Raises NewerDatabase, StoreError or sqlite3.Error."""
    with path.open("rb") as file:
        if file.read(len(_HEADER)) != _HEADER:
            return "it doesn't begin like an SQLite file"
    with closing(_probe(path)) as db:
        check_version(db, path)
        return first_fault(db, seconds=_CHECK_S)


def _probe(path: Path) -> sqlite3.Connection:
    """A connection that can't change the file, unless an interrupted transaction has to be rolled back first."""
    db = connect(path, Access(read_only=True))
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        db.close()
        if error.sqlite_errorcode not in {
            sqlite3.SQLITE_READONLY_ROLLBACK,
            sqlite3.SQLITE_READONLY_RECOVERY,
            sqlite3.SQLITE_CANTOPEN,
        }:
            raise
        return connect(path, Access(shared_log=False))
    except BaseException:
        db.close()
        raise
    return db


def check_version(db: sqlite3.Connection, path: Path) -> None:
    """Raises NewerDatabase for a later Fader's file, StoreError for one that isn't Fader's."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and db.execute("PRAGMA application_id").fetchone()[0] != migrations.APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite file of another program. It was left untouched.")
    unknown = [name for name in migrations.applied(db) if name not in migrations.known()]
    if unknown:
        raise NewerDatabase(
            f"{path} was written by a later version of Fader (it knows {', '.join(unknown)}). It was left untouched; update Fader."
        )


def first_fault(db: sqlite3.Connection, *, seconds: float | None) -> str | None:
    """What SQLite's quick check finds wrong, None if nothing. It stops after ``seconds``: a large file is then checked in part,
    the lists first, and wholly by the daily backup."""
    deadline = None if seconds is None else time.monotonic() + seconds
    if deadline is not None:
        db.set_progress_handler(lambda: time.monotonic() > deadline, 1000)
    try:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for scope in [*(name for name in ("conversations", "runs", "messages") if name in tables), 1]:
            for (finding,) in db.execute(f"PRAGMA quick_check({scope})"):
                if finding != "ok":
                    return str(finding)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
    finally:
        db.set_progress_handler(None, 0)
    return None


def _migrate(db: sqlite3.Connection, path: Path, owners: Owners) -> list[str]:
    """Bring the file up to date; a file with content is backed up first. Returns what to tell the user."""
    pending = migrations.pending(db)
    if not pending:
        return []
    notices = []
    if migrations.applied(db):
        if owners.others():
            raise StoreBusy(
                f"An earlier version of Fader is using {path}. Close it first, so that the file can be brought up to date."
            )
        copy = backup.before(path, pending[0])
        notices.append(
            f"The conversations were brought up to date for this version of Fader. A copy of before is in {copy}."
        )
    migrations.migrate(db)
    return notices
