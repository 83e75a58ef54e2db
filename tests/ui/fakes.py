"""An engine that recites a script, so that the page is tested without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event, Lock, Thread

from app.conversation import FinishReason, Run, RunStatus, Stats, now
from app.engine.desk import Desk
from app.engine.engine import ModelStatus
from app.engine.events import Ended, Progress, StatusChanged, TextDelta
from app.engine.run import LiveRun, RunRequest
from app.engine.text import Kind
from app.models.facts import ModelFacts
from app.models.loading import LoadedModel
from app.models.measure import LoadReport
from app.models.options import LoadOptions

FACTS = ModelFacts("fake", "Fake 1B", "FakeForCausalLM", 2048, 1000, 2, quantization="nf4")


def said(request: RunRequest) -> str:
    """The message that is to be answered."""
    messages = request.history() if request.history else request.messages
    return messages[-1].content if messages else ""


def pieces(request: RunRequest) -> Iterator[str]:
    """The default script: says back what was said."""
    text = f"You said: {said(request)}"
    yield from (text[i : i + 4] for i in range(0, len(text), 4))


class FakeEngine:
    """Works off its queue in one thread. ``script`` gives the pieces of a reply; a script that raises fails the run."""

    def __init__(self, script: Callable[[RunRequest], Iterator[str]] = pieces, step_s: float = 0.0) -> None:
        self.script = script
        self.step_s = step_s
        self.pause: Callable[[RunRequest], float] = lambda _request: self.step_s
        self.chunks: Callable[[RunRequest], int] = lambda _request: 1
        self.model = ModelStatus("ready", "fake", FACTS)
        self.desk: Desk | None = None
        self.loaded: LoadedModel | None = None
        self.report: LoadReport | None = None
        self.requests: list[RunRequest] = []
        self._runs: dict[str, LiveRun] = {}
        self._waiting: list[LiveRun] = []
        self._lock = Lock()
        self._wake = Event()
        self._closed = Event()
        self._thinking = False
        self._thread = Thread(target=self._work, name="fake-engine", daemon=True)
        self._thread.start()

    def submit(self, request: RunRequest) -> LiveRun:
        run = LiveRun(request, on_cancel=self._leave)
        with self._lock:
            self.requests.append(request)
            self._runs[run.id] = run
            self._waiting.append(run)
        self._wake.set()
        return run

    def _leave(self, run: LiveRun) -> None:
        """A run that is still waiting ends at once."""
        with self._lock:
            if run not in self._waiting[1:]:
                return
            self._waiting.remove(run)
        run.append(_ended(run, [], FinishReason.STOPPED, None))

    def live(self, run_id: str) -> LiveRun | None:
        return self._runs.get(run_id)

    def queue(self) -> tuple[LiveRun, ...]:
        with self._lock:
            return tuple(self._waiting)

    def load(self, name: str, options: LoadOptions | None = None) -> None:
        self.model = replace(self.model, name=name)

    def unload(self) -> None:
        self.model = ModelStatus("none")

    def cancel_load(self) -> bool:
        return False

    def status(self) -> ModelStatus:
        return self.model

    def close(self) -> None:
        self._closed.set()
        self._wake.set()
        self._thread.join(5)

    def _work(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._waiting and not self._closed.is_set():
                self._recite(self._waiting[0])
                with self._lock:
                    self._waiting.pop(0)

    def _recite(self, run: LiveRun) -> None:
        said: list[str] = []
        run.append(StatusChanged(RunStatus.PREFILL, "Reading the prompt"))
        for done in range(1, self.chunks(run.request) + 1):
            if run.cancelled.is_set() or self._closed.is_set():
                run.append(_ended(run, said, FinishReason.STOPPED, None))
                return
            run.append(Progress("prompt", done, self.chunks(run.request)))
            run.cancelled.wait(self.step_s)
        run.append(StatusChanged(RunStatus.GENERATING))
        reason, error = FinishReason.EOS, None
        try:
            if run.request.prefix_text:
                self._say(run, said, run.request.prefix_text)
            for piece in self.script(run.request):
                if run.cancelled.is_set() or self._closed.is_set():
                    reason = FinishReason.STOPPED
                    break
                self._say(run, said, piece)
                run.cancelled.wait(self.pause(run.request))
        except Exception as failure:  # noqa: BLE001  (a script that raises is a model that raises)
            reason, error = FinishReason.ERROR, str(failure)
        run.append(_ended(run, said, reason, error))

    def _say(self, run: LiveRun, said: list[str], piece: str) -> None:
        if piece in {"<think>", "</think>"}:
            self._thinking = piece == "<think>"
            kind: Kind = "mark"
        else:
            kind = "thinking" if self._thinking else "answer"
        said.append(piece)
        run.append(TextDelta(piece, kind))


def _ended(run: LiveRun, said: Sequence[str], reason: FinishReason, error: str | None) -> Ended:
    status = {FinishReason.STOPPED: RunStatus.STOPPED, FinishReason.ERROR: RunStatus.FAILED}.get(reason, RunStatus.DONE)
    stats = Stats(prompt_tokens=12, new_tokens=len(said), ttft_s=0.12, tokens_per_s=34.5, reused_tokens=8)
    record = Run(
        run.id,
        run.request.message_id,
        status,
        reason,
        requested=run.request.requested,
        effective=run.request.requested,
        seed=42,
        stats=stats,
        error=error,
        finished_at=now(),
    )
    return Ended(record, "".join(said))
