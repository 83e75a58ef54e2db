"""SQLite's errors as Fader's: one place that turns a result code into a sentence a user can act on."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import DamagedDatabase, FaderError, RefusedInput, StoreBusy, StoreError, StoreFull, StoreReadOnly

_PRIMARY = 0xFF
"""Extended result codes carry the primary one in their low byte."""

_WRITE_FAILURES = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,  # also what a reached quota or file size limit reads like
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,  # the index of the write-ahead log could not grow
    }
)


def translate(error: sqlite3.Error, path: Path) -> FaderError:
    """The error that says what happened to the file at ``path``: a StoreError, or RefusedInput for an id that is taken."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code in _WRITE_FAILURES:
        return _full(path)
    match code & _PRIMARY:
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"Another program holds {path} and did not let go in time. Nothing was changed; try again.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return StoreReadOnly(f"No permission to write {path} or its folder. Nothing was changed.")
        case sqlite3.SQLITE_CONSTRAINT:
            return RefusedInput(f"Something of the same id is already there, or what it belongs to is gone ({error}).")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return DamagedDatabase(
                f"{path} is damaged ({error}). Start Fader again: it sets the file aside and recovers what can be read."
            )
    return StoreError(f"{path} could not be read or written: {error}")


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"No space is left on the disk (or its quota is used up) for {path}. Nothing was changed; make room and try again."
    )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the operating system inside leave as StoreErrors."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
    except PermissionError as error:
        raise StoreReadOnly(f"No permission for {error.filename or path}.") from error
    except OSError as error:
        raise _from_os(error, path) from error


def _from_os(error: OSError, path: Path) -> StoreError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return _full(path)
    if error.errno == errno.EROFS:
        return StoreReadOnly(f"{error.filename or path} is on a read-only disk.")
    return StoreError(f"{error.filename or path}: {error.strerror or error}")
