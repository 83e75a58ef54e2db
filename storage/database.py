"""One SQLite file, safely shared: a single writer thread, readers that never wait for it, errors as StoreErrors.

Every write is a job run by the writer inside ``BEGIN IMMEDIATE`` … ``COMMIT``; its caller waits until it is committed and gets
its exception if it failed and was rolled back. Readers take a connection of their own and see one consistent state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, LifoQueue, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeAlias, TypeVar

from app.errors import StoreError, StoreReadOnly
from storage.faults import translated

T = TypeVar("T")
Job: TypeAlias = Callable[[sqlite3.Connection], T]

BUSY_MS = 10_000
"""How long a connection waits for another process's write before StoreBusy, in milliseconds."""

_CACHE_KIB = 16_384


@dataclass(frozen=True, slots=True)
class Access:
    """How a file may be opened. ``shared_log``: with a write-ahead log, which needs memory shared by all its users and so a
    local disk. ``immutable``: on a medium where not even a lock can be placed."""

    read_only: bool = False
    immutable: bool = False
    shared_log: bool = True


def connect(path: Path, access: Access = Access(), *, busy_ms: int = BUSY_MS) -> sqlite3.Connection:
    """A connection with Fader's settings; transactions are begun and ended by hand. Raises sqlite3.Error."""
    mode = "mode=ro" if access.read_only else "mode=rwc"
    uri = f"{path.absolute().as_uri()}?{mode}{'&immutable=1' if access.immutable else ''}"
    db = sqlite3.connect(uri, uri=True, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        db.text_factory = _decode
        db.execute("PRAGMA foreign_keys = ON")
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if not access.read_only:
            db.execute(f"PRAGMA journal_mode = {'WAL' if access.shared_log else 'DELETE'}")
            db.execute("PRAGMA synchronous = FULL")
    except BaseException:
        db.close()
        raise
    return db


def _decode(text: bytes) -> str:
    """Stored text; a byte that went bad on the disk costs one character, not the conversation."""
    return text.decode(errors="replace")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing: commit at the end, roll back on any exception, including one of the commit itself."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class Database:
    """The open file. ``write`` and ``read`` may be called from any thread."""

    def __init__(self, path: Path, access: Access) -> None:
        """Raises StoreError when the file can't be opened."""
        self.path = path
        self.access = access
        self._jobs: SimpleQueue[tuple[Job[Any], Future[Any]] | None] = SimpleQueue()
        self._idle: LifoQueue[sqlite3.Connection] = LifoQueue()
        self._closing = Lock()
        self._closed = False
        with translated(path):
            self._writer_connection = connect(path, access)
            self._inode = path.stat().st_ino
        self._writer = Thread(target=self._work, name="store-writer", daemon=True)
        self._writer.start()

    def write(self, job: Job[T]) -> T:
        """Run ``job`` in a write transaction and return its result once it is on the disk; raises what it raised, or StoreError."""
        if self.access.read_only:
            raise StoreReadOnly(f"{self.path} can only be read: there is no permission to write it.")
        future: Future[T] = Future()
        with self._closing:
            self._refuse_closed()
            self._jobs.put((job, future))
        return future.result()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file throughout; raises StoreError."""
        self._refuse_closed()
        with translated(self.path):
            db = self._reader()
            try:
                db.execute("BEGIN")
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                self._give_back(db)

    def close(self) -> None:
        """Finish the writes that were asked for and close the file. Safe to call twice."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._writer.join()
        self._close_idle()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError(f"{self.path} has been closed.")

    def _refuse_replaced(self) -> None:
        """What is written into a file that has been moved or deleted would be lost without a word."""
        if not self.path.exists() or self.path.stat().st_ino != self._inode:
            raise StoreError(
                f"{self.path} has been moved, deleted or replaced. Nothing is kept until Fader is started again."
            )

    def _reader(self) -> sqlite3.Connection:
        try:
            return self._idle.get_nowait()
        except Empty:
            db = connect(self.path, self.access)
            db.execute("PRAGMA query_only = ON")
            return db

    def _give_back(self, db: sqlite3.Connection) -> None:
        self._idle.put(db)
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, future = item
            try:
                with translated(self.path):
                    self._refuse_replaced()
                    with transaction(self._writer_connection):
                        result = job(self._writer_connection)
            except BaseException as error:  # noqa: BLE001 (it belongs to whoever waits for the job)
                future.set_exception(error)
            else:
                future.set_result(result)
            del item, job, future
        self._writer_connection.close()
