"""A cell of a comparison as the page shows it: what is new of its text, where it stands, and how it compares with a single run."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from app.chat import Chat
from app.conversation import Json, Run, new_id
from app.engine.events import Event, Progress, StatusChanged, TextDelta
from app.engine.run import LiveRun
from app.engine.trace import Trace
from ui.views import run_view

if TYPE_CHECKING:
    from app.engine.batch.alone import AloneCheck

KEPT = 8
"""Checks whose results can be asked for."""


@dataclass
class Checks:
    """The last checks, by an id of their own. Thread-safe."""

    _checks: OrderedDict[str, AloneCheck] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def add(self, check: AloneCheck) -> str:
        """Keep a check; the oldest is stopped and forgotten when there are many."""
        with self._lock:
            key = new_id()
            self._checks[key] = check
            while len(self._checks) > KEPT:
                self._checks.popitem(last=False)[1].cancelled.set()
            return key

    def get(self, key: str | None) -> AloneCheck | None:
        """One check, if it is still kept."""
        with self._lock:
            return self._checks.get(key or "")

    def stop(self, key: str) -> bool:
        """Stop a check; what it has found stays. False when there is none."""
        check = self.get(key)
        if check is not None:
            check.cancelled.set()
        return check is not None


def cell_view(chat: Chat, run_id: str, after: int, check: AloneCheck | None) -> Json:
    """``text`` is what came after event ``after``, and ``seq`` the number of the last one; once ``done`` the whole, with its ids."""
    live = chat.live(run_id)
    if live is not None and live.ended is None:
        return {"run": run_id, "done": False, **_written(live, after)}
    ended = live.ended if live is not None else None
    stored: Run = ended.run if ended else chat.store.run(run_id)
    text = ended.text if ended else chat.store.message(stored.message_id).content
    return {
        **run_view(stored),
        "run": run_id,
        "done": True,
        "seq": after,
        "text": text,
        "ids": list(stored.output_ids),
        "perplexity": _perplexity(ended.trace if ended else chat.store.trace(run_id)),
        "together": bool(stored.model_fingerprint.get("batch")),
        "alone": _alone(stored, check),
    }


def _written(live: LiveRun, after: int) -> dict[str, Json]:
    events = live.read(after)
    text = "".join(event.text for _, event in events if isinstance(event, TextDelta) and event.index == 0)
    whole = [event for _, event in live.read()] if live.status.value in ("queued", "loading", "prefill") else []
    return {
        "seq": events[-1][0] if events else after,
        "text": text,
        "status": str(live.status),
        "detail": _last(whole, StatusChanged, "detail") or "",
        "progress": _progress(whole),
    }


def _last(events: list[Event], kind: type, name: str) -> Json:
    return next((getattr(event, name) for event in reversed(events) if isinstance(event, kind)), None)


def _progress(events: list[Event]) -> Json:
    if not events or not isinstance(last := events[-1], Progress):
        return None
    return {"what": last.what, "done": last.done, "total": last.total}


def _perplexity(packed: bytes | None) -> float | None:
    """How unexpected the reply is to the model itself, before any setting acted; None without a trace."""
    trace = Trace.unpack(packed) if packed else None
    if trace is None or not len(trace):
        return None
    surprise = (trace.logsumexp.astype(np.float64) - trace.chosen_raw).mean()
    return float(np.exp(surprise)) if np.isfinite(surprise) and surprise < 700 else None


def _alone(run: Run, check: AloneCheck | None) -> Json:
    """How the reply compares with a single run: None where nobody has asked; ``parts_at`` counts all its tokens from 0."""
    if not run.model_fingerprint.get("batch"):
        return {"state": "exact"}
    if check is None or run.id not in check.claims:
        return None
    found = check.found.get(run.id)
    if found is None:
        over = check.finished.is_set() or run.id in check.left_out
        return {"state": "unknown" if over else "checking", "why": str(check.error or "")}
    kept = len(run.output_ids) - found.tokens
    at = None if found.parts_at is None else kept + found.parts_at
    return {"state": "same" if at is None else "parts", "parts_at": at, "share": found.share}
