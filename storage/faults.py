"""SQLite's errors as Fader's: one place that turns a result code into a sentence a user can act on."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

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


_SENTENCES: Mapping[int, tuple[type[FaderError], str]] = MappingProxyType(
    {
        sqlite3.SQLITE_FULL: (
            StoreFull,
            "No space is left on the disk (or its quota is used up) for {path}. Nothing was changed; make room and try again.",
        ),
        sqlite3.SQLITE_BUSY: (
            StoreBusy,
            "Another program holds {path} and did not let go in time. Nothing was changed; try again.",
        ),
        sqlite3.SQLITE_READONLY: (StoreReadOnly, "No permission to write {path} or its folder. Nothing was changed."),
        sqlite3.SQLITE_CANTOPEN: (
            StoreReadOnly,
            "{path} could not be opened: its folder is gone or may not be written. Nothing was changed.",
        ),
        sqlite3.SQLITE_CONSTRAINT: (
            RefusedInput,
            "Something of the same id is already there, or what it belongs to is gone ({error}).",
        ),
        sqlite3.SQLITE_CORRUPT: (
            DamagedDatabase,
            "{path} is damaged ({error}). Start Fader again: it sets the file aside and recovers what can be read.",
        ),
    }
)
_ALIKE: Mapping[int, int] = MappingProxyType(
    {
        sqlite3.SQLITE_LOCKED: sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_PERM: sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOTADB: sqlite3.SQLITE_CORRUPT,
    }
)


def translate(error: sqlite3.Error, path: Path) -> FaderError:
    """The error that says what happened to the file at ``path``: a StoreError, or RefusedInput for an id that is taken."""
    code = getattr(error, "sqlite_errorcode", 0)
    primary = sqlite3.SQLITE_FULL if code in _WRITE_FAILURES else code & _PRIMARY
    kind, sentence = _SENTENCES.get(
        _ALIKE.get(primary, primary), (StoreError, "{path} could not be read or written: {error}")
    )
    return kind(sentence.format(path=path, error=error))


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
        return StoreFull(_SENTENCES[sqlite3.SQLITE_FULL][1].format(path=path))
    if error.errno == errno.EROFS:
        return StoreReadOnly(f"{error.filename or path} is on a read-only disk.")
    return StoreError(f"{error.filename or path}: {error.strerror or error}")
