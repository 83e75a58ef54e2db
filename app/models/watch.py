"""Progress out of, and cancellation into, a load: bars that the libraries draw become callbacks and draw nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from types import TracebackType
from typing import Any, Self

from app.errors import Cancelled

Progress = Callable[[str, int, int], None]
"""Called with what is going on, steps done and steps in all (0: unknown)."""


def _nobody_watches(what: str, done: int, total: int) -> None:
    """The default progress callback."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Tells ``progress`` what a load is doing and ends it with Cancelled once ``cancelled`` is set."""

    progress: Progress = _nobody_watches
    cancelled: Event = field(default_factory=Event)

    def step(self, what: str, done: int = 0, total: int = 0) -> None:
        """Report a step; raises Cancelled when the user has stopped the load."""
        if self.cancelled.is_set():
            raise Cancelled("Loading the model was cancelled.")
        self.progress(what, done, total)

    @contextmanager
    def follow(self, what: str) -> Iterator[None]:
        """Within it every bar of transformers reports as ``what``; only one load runs at a time, as the hook is global."""
        from transformers.utils import logging

        def bar(_factory: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Bar:
            return self.bar(what, *args, **kwargs)

        previous = logging.set_tqdm_hook(bar)
        try:
            yield
        finally:
            logging.set_tqdm_hook(previous)

    def bar(self, what: str, *args: Any, **kwargs: Any) -> _Bar:
        """A bar for a library that takes one in place of tqdm."""
        kwargs.pop("desc", None)
        return _Bar(self, what, *args, **kwargs)


class _Bar:
    """What transformers needs of a tqdm: iteration, update, close, use as a context."""

    def __init__(
        self, watch: Watch, what: str, iterable: Iterable[Any] = (), *, total: int | None = None, **_others: object
    ) -> None:
        self._watch = watch
        self._what = what
        self._iterable = iterable
        self._done = 0
        self._total = total or (len(iterable) if isinstance(iterable, Sized) else 0)

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterable:
            self._watch.step(self._what, self._done, self._total)
            yield item
            self._done += 1
        self._watch.step(self._what, self._done, self._total)

    def update(self, steps: int = 1) -> None:
        self._done += steps
        self._watch.step(self._what, self._done, self._total)

    def close(self) -> None:
        """Nothing was drawn, nothing is to be tidied."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Every other method of a bar (set_description, set_postfix, refresh, …) only draws."""
        return lambda *_args, **_kwargs: None
