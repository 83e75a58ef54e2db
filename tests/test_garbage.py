"""The collector of cyclic garbage rests while libraries are imported, and nothing stays in memory for it."""

from __future__ import annotations

import gc
import weakref
from threading import Event, Thread

from app.garbage import collect, importing


class _Ring:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_the_collector_rests_within_an_import_and_goes_on_behind_it() -> None:
    with importing:
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_rests_until_the_last_of_several_imports_is_over() -> None:
    inside, leave = Event(), Event()

    def other() -> None:
        with importing:
            inside.set()
            assert leave.wait(30)

    thread = Thread(target=other)
    thread.start()
    assert inside.wait(30)
    with importing:
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_it_goes_on_after_an_import_that_failed() -> None:
    try:
        with importing:
            raise ImportError  # noqa: TRY301
    except ImportError:
        pass
    assert gc.isenabled()


def test_what_was_made_within_is_freed_by_collecting_all() -> None:
    with importing:
        ring = _Ring()
        gone = weakref.ref(ring)
        del ring
    gc.collect()
    assert gone() is not None
    collect()
    assert gone() is None
