"""A state that belongs to the whole process, wanted by several threads at once: it begins with the first of them and ends with the last."""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class Overlapping(AbstractContextManager[None]):
    """``begin`` brings the state about and returns what ends it. If each thread restored what it found, it would stay for good: the second
    finds what the first has done."""

    def __init__(self, begin: Callable[[], Callable[[], None]]) -> None:
        self._begin = begin
        self._lock = Lock()
        self._inside = 0

    def __enter__(self) -> None:
        """One more thread is inside."""
        with self._lock:
            if not self._inside:
                self._end = self._begin()
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """One fewer."""
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._end()
