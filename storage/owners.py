"""Which Fader processes on this data folder are alive: each holds an operating-system lock that dies with it.

A run carries its process's ``owner`` id. The lock on ``locks/<owner>.lock`` is given up by the system when the process ends,
however it ends, so a free lock is proof that nobody will finish that run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import StoreBusy

_POLL_S = 0.05

if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FileLock:
    """An exclusive lock on a file, held from ``acquire`` until ``release`` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting; False when somebody else holds it. Raises OSError when the folder can't be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        if _try_lock(handle) and _same_file(handle, self.path):
            self._handle = handle
            return True
        os.close(handle)
        return False

    def release(self, *, remove: bool = False) -> None:
        """Give the lock up; ``remove`` deletes its file first (while nobody else can hold it)."""
        if self._handle is None:
            return
        if remove and sys.platform != "win32":
            self.path.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = None
        if remove and sys.platform == "win32":
            _unlink_if_free(self.path)


def _same_file(handle: int, path: Path) -> bool:
    """Whether the locked file is still the one at ``path``: between open and lock another process may have removed it."""
    try:
        return os.fstat(handle).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _unlink_if_free(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return  # opened by another process just now; it will remove it


@contextmanager
def exclusively(path: Path, *, seconds: float) -> Iterator[None]:
    """Hold the lock at ``path`` inside; raises StoreBusy when it isn't free within ``seconds``."""
    lock = FileLock(path)
    deadline = time.monotonic() + seconds
    while not lock.acquire():
        if time.monotonic() > deadline:
            raise StoreBusy(f"Another Fader has been opening or restoring {path.parent.parent} for {seconds:.0f} s.")
        time.sleep(_POLL_S)  # there is no event to await for another process's lock
    try:
        yield
    finally:
        lock.release()


class Owners:
    """The locks of all processes on one data folder, and this one's own."""

    def __init__(self, folder: Path, own: str) -> None:
        self.own = own
        self._folder = folder
        self._lock = FileLock(self._path(own))

    def enter(self) -> None:
        """Hold this process's lock. Raises OSError when the folder can't be written."""
        self._lock.acquire()

    def leave(self) -> None:
        """Give this process's lock up."""
        self._lock.release(remove=True)

    def alive(self, owner: str) -> bool:
        """Whether the process of that id still runs; removes what a dead one left behind."""
        if owner == self.own:
            return True
        if not self._path(owner).exists():
            return False
        probe = FileLock(self._path(owner))
        if not probe.acquire():
            return True
        probe.release(remove=True)
        return False

    def others(self) -> bool:
        """Whether another process has this data folder open."""
        names = [path.stem for path in self._folder.glob("*.lock") if not path.stem.startswith("_")]
        return any(self.alive(name) for name in names if name != self.own)

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"
