"""One thread owns the model; runs and loads queue first come, first served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.engine.run import LiveRun, RunRequest
from app.models.facts import ModelFacts


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What the page shows about the model. ``state``: none | loading | ready | failed (``facts`` is then the previous model's, if one is still there)."""

    state: str
    name: str | None = None
    facts: ModelFacts | None = None
    detail: str = ""
    done: int = 0
    total: int = 0


class Engine(Protocol):
    """What chat and page use of the engine."""

    def submit(self, request: RunRequest) -> LiveRun: ...
    def live(self, run_id: str) -> LiveRun | None: ...
    def queue(self) -> tuple[LiveRun, ...]: ...
    def load(self, name: str) -> None: ...
    def unload(self) -> None: ...
    def status(self) -> ModelStatus: ...
    def close(self) -> None: ...
