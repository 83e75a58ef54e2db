"""The line in front of the model: first come, first served; whoever waits knows the place and can leave."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Condition, Event
from typing import TYPE_CHECKING, TypeAlias

from app.conversation import FinishReason, Run, RunStatus
from app.engine.events import StatusChanged
from app.engine.outcome import cut_short
from app.engine.run import LiveRun
from app.engine.score import Question

if TYPE_CHECKING:
    from app.engine.events import Ended
    from app.errors import FaderError
    from app.models.options import LoadOptions


@dataclass(eq=False)
class LoadJob:
    """A queued load or (name None) unload, of the model or of the draft beside it; ``options`` None: as was chosen for it before.
    ``unless_there``: nothing is done when it is in use already. ``finished`` is set when it is over, ``error`` says why it failed."""

    name: str | None
    draft: bool = False
    options: LoadOptions | None = None
    unless_there: bool = False
    finished: Event = field(default_factory=Event)
    cancelled: Event = field(default_factory=Event)
    error: FaderError | None = None


@dataclass(eq=False)
class Group:
    """Runs that are computed side by side: they wait as one, and any of them can leave."""

    runs: list[LiveRun]


Job: TypeAlias = LiveRun | Group | LoadJob | Question
"""What can stand in the line."""


def runs_of(job: Job) -> list[LiveRun]:
    """The runs that a job stands for."""
    if isinstance(job, Group):
        return job.runs
    return [job] if isinstance(job, LiveRun) else []


@dataclass(eq=False)
class Line:
    """Jobs that wait and the one that is being served. Every method may be called from any thread.

    ``wanted`` is set while somebody waits, and once the line is closed: whatever is done meanwhile has to end.
    """

    wanted: Event = field(default_factory=Event)
    _waiting: deque[Job] = field(default_factory=deque)
    _served: Job | None = None
    _closed: bool = False
    _changed: Condition = field(default_factory=Condition)

    def jobs(self) -> list[Job]:
        """Everybody, the one that is being served first."""
        with self._changed:
            return [*([self._served] if self._served else []), *self._waiting]

    def join(self, job: Job) -> None:
        """Stand behind everybody else; a run is told its place. Behind a closed line a job has its end at once."""
        with self._changed:
            for run in runs_of(job):
                run.append(_place(len(self.jobs()) + 1))
            if self._closed:
                turn_away(job)
                return
            self._waiting.append(job)
            self._tell()

    def leave(self, run: LiveRun) -> None:
        """A run that is still waiting ends at once; one that is being served stays."""
        with self._changed:
            job = next((job for job in self._waiting if run in runs_of(job)), None)
            if job is None:
                return
            if isinstance(job, Group):
                job.runs.remove(run)
            if job is run or not runs_of(job):
                self._waiting.remove(job)
            self._tell()
        turn_away(run)

    def next(self, patience: float | None = None) -> Job | None:
        """The next job, to be served from now on; None when nobody came for ``patience`` seconds (None: for ever), or it is closed."""
        with self._changed:
            self._served = None
            if not self._changed.wait_for(lambda: self._closed or self._waiting, patience) or self._closed:
                return None
            self._served = self._waiting.popleft()
            self._tell()
            for place, job in enumerate(self._waiting, start=2):
                for run in runs_of(job):
                    run.append(_place(place))
            return self._served

    def pressed(self) -> bool:
        """Whether somebody waits for whom a job that makes way has to stop."""
        with self._changed:
            return self._closed or any(not getattr(job, "makes_way", False) for job in self._waiting)

    @property
    def closed(self) -> bool:
        """Whether nobody will be served any more."""
        return self._closed

    def close(self) -> None:
        """Cancel whatever is being served, and give everybody who waits an end."""
        with self._changed:
            self._closed = True
            if self._served:
                _cancel(self._served)
            while self._waiting:
                turn_away(self._waiting.popleft())
            self._tell()

    def _tell(self) -> None:
        if self._closed or self._waiting:
            self.wanted.set()
        else:
            self.wanted.clear()
        self._changed.notify_all()


def turn_away(job: Job) -> None:
    """The end of a job that is not served."""
    _cancel(job)
    for run in runs_of(job):
        run.append(unserved(run, RunStatus.STOPPED, FinishReason.STOPPED))
    if isinstance(job, LoadJob | Question):
        job.finished.set()


def _cancel(job: Job) -> None:
    for part in job.runs if isinstance(job, Group) else [job]:
        part.cancelled.set()


def unserved(run: LiveRun, status: RunStatus, reason: FinishReason, sentence: str | None = None) -> Ended:
    """The end of a run that never came to the model."""
    record = Run(run.id, run.request.message_id, requested=dict(run.request.requested))
    return cut_short(run, record, status, reason, sentence)


def _place(place: int) -> StatusChanged:
    return StatusChanged(RunStatus.QUEUED, f"Place {place} in the queue" if place > 1 else "")
