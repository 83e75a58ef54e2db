"""Python's collector of cyclic garbage rests while libraries are imported, and leaves alone what they made.

An import makes objects that stay. The collector looks through all of them again and again meanwhile, which is a fifth of the time that
torch, transformers and Gradio need to come up, and at each of its great rounds from then on, which holds up every thread.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Rest:
    """How many threads are importing: the collector belongs to the process, and goes on when the last of them is through."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._importing = 0

    def enter(self) -> None:
        with self._lock:
            self._importing += 1
            gc.disable()

    def leave(self) -> None:
        with self._lock:
            self._importing -= 1
            gc.freeze()
            if not self._importing:
                gc.enable()


_REST = _Rest()


@contextmanager
def importing() -> Iterator[None]:
    """Within it nothing is collected; what is there at its end is never looked at again, until ``collect``."""
    _REST.enter()
    try:
        yield
    finally:
        _REST.leave()


def collect() -> None:
    """Collect all that nothing refers to any more."""
    gc.unfreeze()
    gc.collect()
