"""One thread owns the model; runs and loads queue first come, first served.

Runs belong to the engine: a reader that leaves stops nothing, and a run whose computation raises ends as failed while the next one starts.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from app.conversation import FinishReason, Run, RunStatus
from app.engine.desk import Desk
from app.engine.events import Ended, Progress, StatusChanged
from app.engine.outcome import cut_short, explain
from app.engine.run import LiveRun, RunRequest
from app.engine.score import Question, ScoreJob
from app.errors import Cancelled, FaderError, NoModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.engine.fast.proof import Decoding
    from app.engine.prefix_cache import PrefixCache
    from app.models.facts import ModelFacts
    from app.models.loading import LoadedModel
    from app.settings import Settings

log = logging.getLogger(__name__)
KEPT_RUNS = 200
"""Ended runs that stay readable in memory for pages that come late; older ones are read from the store."""
MESSAGE_NO_MODEL = "No model is loaded. Choose one under “Models”, or start Fader with --model."


class Models(Protocol):
    """Loads and frees models; ``app.models`` fulfils it."""

    def load(self, name: str, *, progress: Callable[[str, int, int], None], cancelled: Event) -> LoadedModel:
        """Load by name. Raises ModelError or Cancelled."""

    def unload(self, loaded: LoadedModel) -> None:
        """Give the memory back."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What the page shows about the model. ``state``: none, loading, ready or failed; after a failed load ``facts`` is the
    previous model's when that is still usable. ``done`` of ``total`` steps while loading."""

    state: str
    name: str | None = None
    facts: ModelFacts | None = None
    detail: str = ""
    done: int = 0
    total: int = 0


@dataclass(eq=False)
class LoadJob:
    """A queued load or (name None) unload, of the model or of the draft beside it; ``finished`` is set when it is over, ``error``
    says why it failed."""

    name: str | None
    draft: bool = False
    finished: Event = field(default_factory=Event)
    cancelled: Event = field(default_factory=Event)
    error: FaderError | None = None


Queued = TypeVar("Queued", bound="LoadJob | Question")
Job: TypeAlias = LiveRun | LoadJob | Question
"""What the queue holds."""


class Engine:
    """The thread, its queue, and the model it holds. Methods may be called from any thread."""

    def __init__(self, models: Models, settings: Settings) -> None:
        from app.engine.beside import Beside
        from app.engine.prefix_cache import PrefixCache

        self._models = models
        self._settings = settings
        self._blocks: PrefixCache = PrefixCache(settings.prefill_chunk, settings.prefix_cache_mb * 2**20)
        self._loaded: LoadedModel | None = None
        self._beside = Beside()
        self._desk: Desk | None = None
        self._resting: str | None = None
        self._resting_draft: str | None = None
        self._status = ModelStatus("none")
        self._queue: deque[Job] = deque()
        self._current: Job | None = None
        self._runs: OrderedDict[str, LiveRun] = OrderedDict()
        self._wake = Condition()
        self._closing = False
        self._thread = Thread(target=self._work, name="fader-engine", daemon=True)
        self._thread.start()

    # -- for any thread ----------------------------------------------------------------------------------------------------

    def submit(self, request: RunRequest) -> LiveRun:
        """Queue a run and return it; its first event tells its place."""
        run = LiveRun(request, on_cancel=self._cancelled)
        with self._wake:
            place = len(self._ahead()) + 1
            self._runs[run.id] = run
            run.append(_place(place))
            if self._closing:  # nobody will look at the queue again
                run.append(_stopped(run))
                return run
            self._queue.append(run)
            self._forget()
            self._wake.notify_all()
        return run

    def live(self, run_id: str) -> LiveRun | None:
        """A run that is alive, or ended not long ago."""
        with self._wake:
            return self._runs.get(run_id)

    def queue(self) -> tuple[LiveRun, ...]:
        """Runs that have not ended, the current one first."""
        with self._wake:
            return tuple(item for item in self._ahead() if isinstance(item, LiveRun) and not item.ended)

    def load(self, name: str) -> LoadJob:
        """Queue the loading of a model; the previous one stays usable until then, and afterwards if loading fails."""
        return self._enqueue(LoadJob(name))

    def unload(self) -> LoadJob:
        """Queue the freeing of the model."""
        return self._enqueue(LoadJob(None))

    def load_draft(self, name: str) -> LoadJob:
        """Queue the loading of a draft model beside the main one, for assisted generation; it replaces the previous draft."""
        return self._enqueue(LoadJob(name, draft=True))

    def unload_draft(self) -> LoadJob:
        """Queue the freeing of the draft model."""
        return self._enqueue(LoadJob(None, draft=True))

    def score(self, ids: Sequence[int]) -> ScoreJob:
        """Queue the scoring of a text's tokens (its perplexity); the job has the trace when it is finished."""
        return self._enqueue(ScoreJob(ids=tuple(ids)))

    def ask(self, question: Question) -> None:
        """Queue something to be computed with the model."""
        self._enqueue(question)

    def cancel_load(self) -> bool:
        """Stop the load under way; False when there is none."""
        with self._wake:
            jobs = [item for item in self._ahead() if isinstance(item, LoadJob)]
            for job in jobs:
                job.cancelled.set()
            return bool(jobs)

    def status(self) -> ModelStatus:
        """The state of the model."""
        return self._status

    @property
    def loaded(self) -> LoadedModel | None:
        """The model in memory, for reading its tokenizer and facts; only the engine's thread computes with it."""
        return self._loaded

    @property
    def desk(self) -> Desk | None:
        """Answers about the loaded model (tokenizing, the prompt before it is sent) for any thread; None without a model."""
        return self._desk

    def close(self) -> None:
        """End the current run, give queued ones an end, free the model and join the thread."""
        with self._wake:
            self._closing = True
            for item in self._ahead():
                item.cancelled.set()
            self._wake.notify_all()
        self._thread.join()

    # -- the queue -----------------------------------------------------------------------------------------------------------

    def _ahead(self) -> list[Job]:
        return [*([self._current] if self._current else []), *self._queue]

    def _enqueue(self, job: Queued) -> Queued:
        with self._wake:
            self._queue.append(job)
            if self._closing:
                self._end_waiting()
            self._wake.notify_all()
        return job

    def _cancelled(self, run: LiveRun) -> None:
        """A run that is still waiting ends at once."""
        with self._wake:
            if run not in self._queue:
                return
            self._queue.remove(run)
        run.append(_stopped(run))

    def _forget(self) -> None:
        ended = [run_id for run_id, run in self._runs.items() if run.ended]
        for run_id in ended[: max(0, len(self._runs) - KEPT_RUNS)]:
            del self._runs[run_id]

    # -- the engine's thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (item := self._next()) is not None:
            try:
                if isinstance(item, LiveRun):
                    self._run(item)
                elif isinstance(item, Question):
                    self._answer(item)
                else:
                    self._carry_out(item)
            except Exception as error:  # a fault of ours must not end the thread that everybody waits for
                log.exception("The engine failed at one item and goes on")
                if isinstance(item, LiveRun) and not item.ended:
                    item.append(_failed(item, str(explain(error))))
            finally:
                with self._wake:
                    self._current = None
        with self._wake:
            self._end_waiting()
        if self._loaded is not None:
            self._free()

    def _end_waiting(self) -> None:
        """Give an end to everything that nobody will come to (the caller holds the lock)."""
        while self._queue:
            left = self._queue.popleft()
            if isinstance(left, LiveRun):
                left.append(_stopped(left))
            else:
                left.finished.set()

    def _next(self) -> Job | None:
        with self._wake:
            while not self._wake.wait_for(lambda: self._closing or self._queue, self._patience()):
                self._rest()
            if self._closing:
                return None
            self._current = self._queue.popleft()
            self._tell_places()
            return self._current

    def _patience(self) -> float | None:
        """Seconds to wait for work before the model is freed; None: for ever."""
        minutes = self._settings.idle_unload_minutes
        return minutes * 60 if minutes and self._loaded is not None else None

    def _rest(self) -> None:
        """Nothing was asked for a long time: free the model, and load it again when it is wanted."""
        name, draft = self._status.name, self._beside.draft
        self._free()
        self._resting, self._resting_draft = name, draft.name if draft else None
        self._status = ModelStatus(
            "none", detail=f"{name} was unloaded after a pause; it loads again with your next message."
        )

    def _tell_places(self) -> None:
        """Everybody who waits has moved up."""
        for place, item in enumerate(self._queue, start=2):
            if isinstance(item, LiveRun):
                item.append(_place(place))

    def _run(self, run: LiveRun) -> None:
        from app.engine.execute import execute

        wanted = run.request.model or (self._resting if self._loaded is None else None)
        try:
            if wanted and (self._loaded is None or self._status.name != wanted):
                run.append(StatusChanged(RunStatus.LOADING, f"Loading {wanted}"))
                draft = self._resting_draft if wanted == self._resting else None
                self._replace(wanted, run.cancelled, lambda what, done, total: run.append(Progress(what, done, total)))
                if draft:
                    self._replace_draft(LoadJob(draft, draft=True, cancelled=run.cancelled))
            if self._loaded is None:
                raise NoModel(self._status.detail or MESSAGE_NO_MODEL)
        except Cancelled:
            run.append(_stopped(run))
        except FaderError as error:
            run.append(_failed(run, str(error)))
        else:
            execute(run, self._loaded, self._blocks, self._beside)

    def _answer(self, job: Question) -> None:
        try:
            if self._loaded is None and self._resting:
                self._replace(self._resting, job.cancelled, None)
            if self._loaded is None:
                raise NoModel(self._status.detail or MESSAGE_NO_MODEL)  # noqa: TRY301  (this job's error like any other)
            job.answer(self._loaded, self._settings.prefill_chunk)
        except FaderError as error:
            job.error = error
        except Exception as error:  # noqa: BLE001  (whatever a model raises ends this job and nothing else)
            job.error = explain(error)
        finally:
            job.finished.set()

    def _carry_out(self, job: LoadJob) -> None:
        try:
            if job.draft:
                self._replace_draft(job)
            elif job.name is None:
                self._free()
            elif not job.cancelled.is_set():
                self._replace(job.name, job.cancelled, None)
        except FaderError as error:
            job.error = error
        finally:
            job.finished.set()

    def _replace(self, name: str, cancelled: Event, also: Callable[[str, int, int], None] | None) -> None:
        """Load ``name`` beside the previous model and put it in its place; on failure the previous one stays."""
        previous = self._status

        def progress(what: str, done: int, total: int) -> None:
            self._status = replace(self._status, detail=what, done=done, total=total)
            if also:
                also(what, done, total)

        self._status = ModelStatus("loading", name, previous.facts if self._loaded else None, f"Loading {name}")
        try:
            loaded = self._models.load(name, progress=progress, cancelled=cancelled)
        except Cancelled:
            self._status = previous
            raise
        except FaderError as error:
            self._status = self._after_failure(previous, str(error))
            raise
        except Exception as error:
            sentence = f"{name} could not be loaded: {type(error).__name__}: {error}"
            self._status = self._after_failure(previous, sentence)
            raise NoModel(sentence) from error
        decoding = self._decoding(loaded)
        if self._loaded is not None:
            self._free_draft()
        self._blocks.clear()
        self._beside.clear()
        if self._loaded is not None:
            self._models.unload(self._loaded)
        _forget_own_settings(loaded)
        self._beside.decoding = decoding
        self._loaded, self._desk, self._resting = loaded, Desk(loaded.tokenizer, loaded.facts), None
        self._resting_draft = None
        self._status = ModelStatus("ready", name, loaded.facts)

    def _decoding(self, loaded: LoadedModel) -> Decoding:
        from app.engine.fast.proof import decoding_for

        self._status = replace(self._status, detail="Trying the fast step")
        return decoding_for(loaded.model, wanted=self._settings.fast_step)

    def _replace_draft(self, job: LoadJob) -> None:
        """Free the draft, and load the one asked for; the main model stays ready whatever happens."""
        if self._loaded is None:
            raise NoModel("Load a model first; a draft model only helps another one.")
        self._free_draft()
        if job.name is None or job.cancelled.is_set():
            return
        from app.engine.assisted import pair

        name, ready = job.name, self._status

        def progress(what: str, done: int, total: int) -> None:
            self._status = replace(ready, detail=f"Draft model: {what}", done=done, total=total)

        try:
            loaded = self._models.load(name, progress=progress, cancelled=job.cancelled)
            try:
                self._beside.draft = pair(self._loaded, loaded, name)
            except FaderError:
                self._models.unload(loaded)
                raise
        finally:
            self._status = ready
            self._tell_draft()

    def _free_draft(self) -> None:
        if self._beside.draft is not None:
            draft, self._beside.draft = self._beside.draft, None
            self._models.unload(draft.loaded)
            self._tell_draft()

    def _tell_draft(self) -> None:
        """The facts say which draft stands beside the model."""
        from app.engine.assisted import facts_with

        if self._loaded is not None:
            self._loaded.facts = facts_with(self._loaded.facts, self._beside.draft)
            self._desk = Desk(self._loaded.tokenizer, self._loaded.facts)
            self._status = replace(self._status, facts=self._loaded.facts)

    def _after_failure(self, previous: ModelStatus, sentence: str) -> ModelStatus:
        if self._loaded is None:
            return ModelStatus("failed", None, None, sentence)
        return ModelStatus(
            "ready", previous.name, self._loaded.facts, f"{sentence} The previous model is still in use."
        )

    def _free(self) -> None:
        if self._loaded is not None:
            self._free_draft()
            loaded, self._loaded, self._desk = self._loaded, None, None
            self._blocks.clear()
            self._beside.clear()
            self._models.unload(loaded)
        self._status = ModelStatus("none")


def _forget_own_settings(loaded: LoadedModel) -> None:
    """Empty the model's own generation config: its values come in through the resolution (``facts.generation_defaults``), where
    they are shown and can be switched off; generate would fill every "off" that is None from here."""
    from transformers import GenerationConfig

    loaded.model.generation_config = GenerationConfig()


def _place(place: int) -> StatusChanged:
    return StatusChanged(RunStatus.QUEUED, f"Place {place} in the queue" if place > 1 else "")


def _record(run: LiveRun) -> Run:
    return Run(run.id, run.request.message_id, requested=dict(run.request.requested))


def _stopped(run: LiveRun) -> Ended:
    return cut_short(run, _record(run), RunStatus.STOPPED, FinishReason.STOPPED)


def _failed(run: LiveRun, sentence: str) -> Ended:
    return cut_short(run, _record(run), RunStatus.FAILED, FinishReason.ERROR, sentence)
