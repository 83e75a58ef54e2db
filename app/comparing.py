"""In which order, and which of them side by side, the replies of a comparison are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.batch.fits import against

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.held import ModelStatus
    from app.engine.run import RunRequest


@dataclass(frozen=True, slots=True)
class Turn:
    """What has one turn in the queue: a single request, or several that are computed side by side. ``apart``: why one is by itself,
    None where nothing is against company."""

    requests: tuple[RunRequest, ...]
    apart: str | None = None


def turns(requests: Sequence[RunRequest], status: ModelStatus, *, exact: bool) -> tuple[Turn, ...]:
    """The loaded model's replies come first, so that every other model is loaded once; within a model those that go side by side.

    What another model can do isn't known before it is loaded: its replies form one group, which the engine divides then. ``exact``: side
    by side the loaded model gives the very numbers that a reply would get alone.
    """
    models = dict.fromkeys(request.model or status.name for request in requests)
    return tuple(
        turn
        for model in sorted(models, key=lambda name: name != status.name)
        for turn in _of_one_model(
            [r for r in requests if (r.model or status.name) == model], model, status, exact=exact
        )
    )


def _of_one_model(requests: Sequence[RunRequest], model: str | None, status: ModelStatus, *, exact: bool) -> list[Turn]:
    facts = status.facts if model == status.name else None
    reasons = {request.run_id: against(request, facts, exact=exact) if facts else None for request in requests}
    together = tuple(request for request in requests if reasons[request.run_id] is None)
    alone = [Turn((request,), reasons[request.run_id]) for request in requests if request not in together]
    return [*([Turn(together)] if together else []), *alone]
