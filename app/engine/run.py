"""A live run: a state machine with an append-only, numbered event log that any number of readers follow at their own pace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Condition
from threading import Event as Flag
from time import monotonic
from typing import TYPE_CHECKING

from app.conversation import EMPTY, Json, Message, RunStatus
from app.engine.events import Ended, Event, StatusChanged, TextDelta
from app.engine.inside import Inside

if TYPE_CHECKING:
    from app.engine.batch.place import Places


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything a run needs, frozen at submit.

    ``messages``: the branch up to and including the user message; with ``history`` it is asked for when the run begins, since a reply
    above it may still be under way when this one is queued. ``prefix_ids``: output tokens the reply starts with (continue,
    branch from a token), whose text is ``prefix_text``; a typed prefix ("start the reply with") has text but no ids.
    ``prompt_ids``: the exact prompt of an earlier run to go on from, instead of building one. ``model``: the name to run on, None for
    whichever is loaded. ``library_steps``: leave the fast step aside, as the run that is repeated did, and record what it recorded of that;
    ``unguessed``: nobody guessed ahead in it, whoever would now.
    ``places``: where the run that is repeated stood among others computed with it.
    """

    run_id: str
    conversation_id: str
    message_id: str
    messages: tuple[Message, ...]
    system_prompt: str = ""
    requested: Mapping[str, Json] = EMPTY
    sources: Mapping[str, str] = EMPTY
    history: Callable[[], tuple[Message, ...]] | None = None
    prefix_text: str = ""
    prefix_ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    model: str | None = None
    library_steps: str | None = None
    unguessed: bool = False
    places: Places = ()


_NEXT: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.LOADING, RunStatus.PREFILL}),
    RunStatus.LOADING: frozenset({RunStatus.PREFILL}),
    RunStatus.PREFILL: frozenset({RunStatus.GENERATING}),
    RunStatus.GENERATING: frozenset(),
}


@dataclass(eq=False)
class LiveRun:
    """One run in the engine. The engine appends; readers iterate; ``cancel`` ends the computation, not just the display.

    ``inside`` has what the output_… parameters asked for, as long as few later runs have asked for the like.
    """

    request: RunRequest
    on_cancel: Callable[[LiveRun], None] | None = None
    submitted_at: float = field(default_factory=monotonic)
    cancelled: Flag = field(default_factory=Flag)
    inside: Inside = field(default_factory=Inside)
    _log: list[Event] = field(default_factory=list)
    _status: RunStatus = RunStatus.QUEUED
    _changed: Condition = field(default_factory=Condition)

    @property
    def id(self) -> str:
        """The run's id."""
        return self.request.run_id

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self._status

    @property
    def ended(self) -> Ended | None:
        """The last event, once there is one."""
        last = self._log[-1] if self._log else None
        return last if isinstance(last, Ended) else None

    def cancel(self) -> None:
        """Ask the computation to end: within a token, a chunk of prefill, or at once while queued. Safe to call twice."""
        self.cancelled.set()
        if self.on_cancel:
            self.on_cancel(self)

    def append(self, event: Event) -> None:
        """Add an event (engine only). Raises ValueError for a transition that the state machine does not know."""
        with self._changed:
            if self.ended:
                message = "an event after the end"
                raise ValueError(message)
            self._advance(event)
            self._log.append(event)
            self._changed.notify_all()

    def _advance(self, event: Event) -> None:
        if isinstance(event, Ended):
            self._status = event.run.status
        elif isinstance(event, StatusChanged) and event.status is not self._status:
            if event.status not in _NEXT.get(self._status, frozenset()):
                message = f"a run can't go from {self._status} to {event.status}"
                raise ValueError(message)
            self._status = event.status

    def read(self, after: int = 0) -> tuple[tuple[int, Event], ...]:
        """The events numbered above ``after`` that are there now, without waiting."""
        with self._changed:
            return tuple(enumerate(self._log[after:], start=after + 1))

    def wait(self, after: int = 0, timeout: float | None = None) -> tuple[tuple[int, Event], ...]:
        """Like ``read``, but waits up to ``timeout`` seconds for at least one event."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._log) > after, timeout)
            return tuple(enumerate(self._log[after:], start=after + 1))

    def events(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Every event above ``after`` as it comes, until the last; a late reader gets them all."""
        while True:
            for number, event in self.wait(after):
                yield number, event
                after = number
                if isinstance(event, Ended):
                    return

    def result(self, timeout: float | None = None) -> Ended:
        """Wait for the end; raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.ended is not None, timeout):
                message = f"run {self.id} has not ended within {timeout} s"
                raise TimeoutError(message)
        ended = self.ended
        assert ended is not None  # noqa: S101  (wait_for has just seen it)
        return ended

    def text(self) -> str:
        """The text so far (of the first sequence), thinking included."""
        with self._changed:
            return "".join(e.text for e in self._log if isinstance(e, TextDelta) and e.index == 0)


class AllSet(Flag):
    """A flag that counts as set when every one of these runs is cancelled."""

    def __init__(self, runs: Iterable[LiveRun]) -> None:
        super().__init__()
        self._runs = tuple(runs)

    def is_set(self) -> bool:
        """Whether nobody waits for it any more."""
        return all(run.cancelled.is_set() for run in self._runs)
