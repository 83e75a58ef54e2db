"""One thread owns the model; runs and loads queue first come, first served.

Runs belong to the engine: a reader that leaves stops nothing, and a run whose computation raises ends as failed while the next one starts.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, TypeVar

from app.conversation import FinishReason, RunStatus
from app.engine.events import Progress, StatusChanged
from app.engine.held import MESSAGE_NO_MODEL, HeldModel, Models, ModelStatus, no_desk
from app.engine.line import Group, Line, LoadJob, runs_of, turn_away, unserved
from app.engine.outcome import explain
from app.engine.run import AllSet, LiveRun, RunRequest
from app.engine.score import MadeWay, Question, ScoreJob
from app.engine.speculation.choice import outlook
from app.errors import Cancelled, FaderError
from app.remote.connecting import RemoteModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.engine.ahead import ReadAhead
    from app.engine.batch.alone import AloneCheck
    from app.engine.batch.claims import Alone, Claim
    from app.engine.desk import Desk
    from app.engine.line import Job
    from app.models.loading import LoadedModel
    from app.models.measure import LoadReport
    from app.models.options import LoadOptions
    from app.settings import Settings

__all__ = ["MESSAGE_NO_MODEL", "Engine", "LoadJob", "ModelStatus", "Models"]

log = logging.getLogger(__name__)
PAUSE_S = 0.5
"""So long after a reply nobody must have asked for anything before it is read ahead: whoever goes on at once isn't kept waiting."""
KEPT_RUNS = 200
"""Ended runs that stay readable in memory for pages that come late; older ones are read from the store."""

Queued = TypeVar("Queued", bound="LoadJob | Question")


class Engine:
    """The thread, the line in front of it and the model that it holds. Methods may be called from any thread."""

    def __init__(self, models: Models, settings: Settings) -> None:
        self.held = HeldModel(models, settings)
        self._patience = settings.idle_unload_minutes * 60 or None
        self._reads_ahead = settings.read_ahead and settings.prefix_cache_mb > 0
        self._ahead: ReadAhead | None = None
        self._settled = Event()
        self._line = Line()
        self._runs: OrderedDict[str, LiveRun] = OrderedDict()
        self._lock = Lock()
        self._thread = Thread(target=self._work, name="fader-engine", daemon=True)
        self._thread.start()

    # -- for any thread ----------------------------------------------------------------------------------------------------

    def submit(self, request: RunRequest) -> LiveRun:
        """Queue a run and return it; its first event tells its place."""
        run = self._live(request)
        self._line.join(run)
        return run

    def submit_together(self, requests: Sequence[RunRequest]) -> tuple[LiveRun, ...]:
        """Queue runs on one model that are computed side by side, as far as their parameters allow it."""
        runs = [self._live(request) for request in requests]
        self._line.join(Group(list(runs)))
        return tuple(runs)

    def _live(self, request: RunRequest) -> LiveRun:
        run = LiveRun(request, on_cancel=self._line.leave)
        with self._lock:
            self._runs[run.id] = run
            self._forget()
        return run

    def _forget(self) -> None:
        ended = [run_id for run_id, run in self._runs.items() if run.ended]
        for run_id in ended[: max(0, len(self._runs) - KEPT_RUNS)]:
            del self._runs[run_id]

    def live(self, run_id: str) -> LiveRun | None:
        """A run that is alive, or ended not long ago."""
        with self._lock:
            return self._runs.get(run_id)

    def queue(self) -> tuple[LiveRun, ...]:
        """Runs that have not ended, the current one first."""
        return tuple(run for job in self._line.jobs() for run in runs_of(job) if not run.ended)

    def load(self, name: str, options: LoadOptions | None = None) -> LoadJob:
        """Queue the loading of a model, as was chosen for it before or as ``options`` say; the previous one stays usable until then."""
        return self._enqueue(LoadJob(name, options=options))

    def unload(self) -> LoadJob:
        """Queue the freeing of the model."""
        return self._enqueue(LoadJob(None))

    def put_back(self, name: str, draft: str | None) -> None:
        """Queue the loading of a model, and of its draft, unless they are in use by then."""
        self._enqueue(LoadJob(name, unless_there=True))
        if draft:
            self._enqueue(LoadJob(draft, draft=True, unless_there=True))

    def load_draft(self, name: str) -> LoadJob:
        """Queue the loading of a draft model beside the main one, for assisted generation; it replaces the previous draft."""
        return self._enqueue(LoadJob(name, draft=True))

    def draft_outlook(self) -> str:
        """What the draft that is loaded can gain on this machine, in a sentence; empty without one."""
        draft, step = self.held.beside.draft, self.held.beside.trial.known.step
        if draft is None:
            return ""
        return outlook(step, draft.reader)

    def unload_draft(self) -> LoadJob:
        """Queue the freeing of the draft model."""
        return self._enqueue(LoadJob(None, draft=True))

    def score(self, ids: Sequence[int]) -> ScoreJob:
        """Queue the scoring of a text's tokens (its perplexity); the job has the trace when it is finished."""
        return self._enqueue(ScoreJob(ids=tuple(ids)))

    def ask(self, question: Question) -> None:
        """Queue something to be computed with the model."""
        self._enqueue(question)

    def check_alone(self, claims: Mapping[str, Claim], tell: Callable[[str, Alone], None]) -> AloneCheck:
        """Queue the check of replies that were computed side by side, by the ids of their runs; it makes way for anybody else."""
        from app.engine.batch.alone import AloneCheck

        blocks, beside = self.held.blocks, self.held.beside
        return self._enqueue(
            AloneCheck(claims=claims, tell=tell, pressed=self._line.pressed, blocks=blocks, beside=beside)
        )

    def cancel_load(self) -> bool:
        """Stop the load under way; False when there is none."""
        jobs = [job for job in self._line.jobs() if isinstance(job, LoadJob)]
        for job in jobs:
            job.cancelled.set()
        return bool(jobs)

    def status(self) -> ModelStatus:
        """The state of the model."""
        loaded = self.held.loaded
        why = loaded.lost() if loaded else None
        return ModelStatus("none", detail=why) if why else self.held.status

    @property
    def loaded(self) -> LoadedModel | None:
        """The model in memory, for reading its tokenizer and facts; only the engine's thread computes with it."""
        loaded = self.held.loaded
        return None if isinstance(loaded, RemoteModel) else loaded

    @property
    def report(self) -> LoadReport | None:
        """What was measured, and must be told, of the model in use, also of one on a server."""
        loaded = self.held.loaded
        return loaded.report if loaded else None

    @property
    def exact_together(self) -> bool:
        """Whether replies that the loaded model computes side by side get the very numbers that each would get alone."""
        return self.held.beside.trial.known.exact_together

    @property
    def desk(self) -> Desk | None:
        """Answers about the loaded model (tokenizing, the prompt before it is sent) for any thread; None without a model."""
        return self.held.desk

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to be read ahead after the last run; False when the time is over before."""
        return self._settled.wait(timeout)

    def close(self) -> None:
        """End the current run, give queued ones an end, free the model and join the thread."""
        self._line.close()
        self._thread.join()

    def _enqueue(self, job: Queued) -> Queued:
        self._line.join(job)
        return job

    # -- the engine's thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._line.closed:
            if self._ahead is None:
                self._settled.set()
            job = self._line.next(self._waits())
            if job is not None:
                self._serve(job)
            elif not self._line.closed:
                self._use_pause()
        self.held.free()

    def _waits(self) -> float | None:
        """Seconds to wait for work before the pause is used for something; None: for ever."""
        if self._ahead:
            return PAUSE_S
        return self._patience if self.loaded else None

    def _use_pause(self) -> None:
        """Nobody waits: read ahead if there is something to read; else nobody has for a long time, and the model is freed."""
        if self._ahead is None:
            self.held.rest()
        elif self._ahead.go_on(self._line.wanted):
            self._ahead = None

    def _serve(self, job: Job) -> None:
        self.held.notice_loss()
        try:
            if isinstance(job, LiveRun | Group):
                self._run(list(runs_of(job)))
            elif isinstance(job, Question):
                self._answer(job)
            else:
                self._carry_out(job)
        except Exception as error:  # a fault of ours must not end the thread that everybody waits for
            log.exception("The engine failed at one job and goes on")
            for run in runs_of(job):
                if not run.ended:
                    run.append(unserved(run, RunStatus.FAILED, FinishReason.ERROR, str(explain(error))))

    def _run(self, runs: list[LiveRun]) -> None:
        self._settled.clear()
        self._ahead, wanted = None, runs[0].request.model
        if name := self.held.missing(wanted):
            _tell(runs, StatusChanged(RunStatus.LOADING, f"Loading {name}"))
        try:
            loaded = self.held.ready(wanted, AllSet(runs), lambda *steps: _tell(runs, Progress(*steps)))
        except Cancelled:
            for run in runs:
                turn_away(run)
        except FaderError as error:
            for run in runs:
                run.append(unserved(run, RunStatus.FAILED, FinishReason.ERROR, str(error)))
        else:
            self._compute(runs, loaded)

    def _compute(self, runs: list[LiveRun], loaded: LoadedModel) -> None:
        from app.engine.ahead import ReadAhead
        from app.engine.batch.together import Together
        from app.engine.execute import execute
        from app.remote.execute import execute_remote

        if isinstance(loaded, RemoteModel):
            for run in runs:
                execute_remote(run, loaded)
            return
        if len(runs) > 1 or runs[0].request.places:
            Together(loaded, self.held.blocks, self.held.beside).execute(runs)
            return
        execute(runs[0], loaded, self.held.blocks, self.held.beside)
        if self._reads_ahead:
            self._ahead = ReadAhead(runs[0], loaded, self.held.blocks)

    def _answer(self, job: Question) -> None:
        try:
            loaded = self.held.ready(None, job.cancelled)
            if isinstance(loaded, RemoteModel):
                raise no_desk(self.held.status)  # noqa: TRY301  (this job's error like any other)
            job.answer(loaded, self.held.blocks.cuts.most)
        except MadeWay:
            self._line.join(job)
            return
        except FaderError as error:
            job.error = error
        except Exception as error:  # noqa: BLE001  (whatever a model raises ends this job and nothing else)
            job.error = explain(error)
        job.finished.set()

    def _carry_out(self, job: LoadJob) -> None:
        self._ahead = None
        try:
            if job.name is None:
                free = self.held.free_draft if job.draft else self.held.free
                free()
            elif job.cancelled.is_set() or (job.unless_there and self.held.holds(job.name, draft=job.draft)):
                pass
            elif job.draft:
                self.held.put_draft(job.name, job.cancelled)
            else:
                self.held.put(job.name, job.cancelled, options=job.options)
                if not self._line.wanted.is_set():
                    self.held.beside.trial.result()
        except FaderError as error:
            job.error = error
        finally:
            job.finished.set()


def _tell(runs: Sequence[LiveRun], event: StatusChanged | Progress) -> None:
    for run in runs:
        run.append(event)
