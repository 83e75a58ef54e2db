"""What the page shows of a run that is being written: a reader of its events that renders once for all tabs.

An update carries only the blocks that changed after the number the page has seen, so its size doesn't grow with the reply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter

from app.conversation import Json, RunStatus
from app.engine.events import Ended, Event, Note, Progress, StatusChanged, TextDelta
from app.engine.run import LiveRun
from ui.streaming import StreamRenderer
from ui.thinking import Kind
from ui.views import run_view, segments


@dataclass
class Segment:
    """A stretch of thinking or answer; ``seen[i]`` is the number of the event that last changed block ``i``."""

    kind: Kind
    index: int
    renderer: StreamRenderer = field(default_factory=StreamRenderer)
    seen: list[int] = field(default_factory=list)

    def feed(self, text: str, number: int) -> None:
        """Add the text of event ``number``."""
        first = self.renderer.feed(text)
        self.seen[first:] = [number] * (len(self.renderer.blocks) - first)

    def view(self, n: int, after: int) -> Json | None:
        """The blocks changed after event ``after``; ``from`` is the index of the first, ``blocks`` all from there on."""
        changed = [i for i, number in enumerate(self.seen) if number > after]
        if not changed:
            return None
        first = changed[0]
        return {"n": n, "kind": self.kind, "index": self.index, "from": first, "blocks": self.renderer.blocks[first:]}


class RunView:
    """Follows one run. Thread-safe; any number of pages may read, each from where it is."""

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self._lock = Lock()
        self._seq = 0
        self._segments: list[Segment] = []
        self._detail = ""
        self._progress: Progress | None = None
        self._notes: list[str] = []
        self._ended: Ended | None = None

    def since(self, after: int, wait_s: float = 0) -> Json:
        """Everything that changed after event number ``after``; waits up to ``wait_s`` seconds for a change."""
        self.run.wait(after, wait_s)
        with self._lock:
            started = perf_counter()
            for number, event in self.run.read(self._seq):
                self._take(number, event)
                self._seq = number
            view = self._view(min(after, self._seq))
            return {**view, "work_ms": round(1000 * (perf_counter() - started), 1)}

    def _take(self, number: int, event: Event) -> None:
        match event:
            case TextDelta(text, kind, index) if kind != "mark":
                self._progress = None
                self._segment(kind, index).feed(text, number)
            case StatusChanged(_, detail):
                self._detail = detail
                self._progress = None
            case Progress():
                self._progress = event
            case Note(text):
                self._notes.append(text)
            case Ended():
                self._progress = None
                self._ended = event
            case _:
                pass

    def _segment(self, kind: Kind, index: int) -> Segment:
        last = self._segments[-1] if self._segments else None
        if last is None or (last.kind, last.index) != (kind, index):
            last = Segment(kind, index)
            self._segments.append(last)
        return last

    def _view(self, after: int) -> Json:
        ended = self._ended
        progress = self._progress
        view: dict[str, Json] = {
            "seq": self._seq,
            "status": str(self.run.status),
            "detail": self._detail,
            "segments": [v for n, s in enumerate(self._segments) if (v := s.view(n, after))],
            "notes": list(self._notes),
            "progress": progress and {"what": progress.what, "done": progress.done, "total": progress.total},
            "done": ended is not None,
        }
        if ended is not None:
            view |= {"run": run_view(ended.run), "final": segments(ended.text), "text": ended.text}
        return view


class LiveViews:
    """The views of the runs that somebody watches; those of ended runs are dropped when there are more than ``keep``."""

    def __init__(self, keep: int = 32) -> None:
        self._keep = keep
        self._lock = Lock()
        self._views: dict[str, RunView] = {}

    def of(self, run: LiveRun) -> RunView:
        """The view of a run, made when it is first asked for."""
        with self._lock:
            view = self._views.get(run.id)
            if view is None or view.run is not run:
                view = self._views[run.id] = RunView(run)
                self._drop_ended()
            return view

    def _drop_ended(self) -> None:
        ended = [key for key, view in self._views.items() if view.run.ended]
        for key in ended[: max(0, len(self._views) - self._keep)]:
            del self._views[key]


def place_in_queue(run: LiveRun, queue: tuple[LiveRun, ...]) -> int:
    """How many runs are to be worked on before this one; 0 when it is its turn or it is not waiting."""
    if run.status is not RunStatus.QUEUED:
        return 0
    return next((place for place, other in enumerate(queue) if other is run), 0)
