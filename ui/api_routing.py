"""Routes for a reply's way through the experts of a mixture: read once on demand, then looked at token by token."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from app.chat import Chat
from app.conversation import Json, Run
from app.errors import NotFound, RefusedInput
from app.insight.balance import tokens_of
from app.insight.routing import Routing, RoutingJob, refuse_unreadable
from app.models.loading import LoadedModel
from ui.api_insight import desk_for
from ui.routing_views import document, routing_view, rows, token_view

KEPT = 2
"""Replies whose routing stays in memory (each bounded by ``routing.LIMIT``)."""
_TYPES = {"csv": "text/csv", "json": "application/json"}


@dataclass(frozen=True, slots=True)
class _Asked:
    job: RoutingJob
    model: LoadedModel | None


@dataclass
class RoutingDesk:
    """The last replies' routing jobs by run; a reply is read again when the model has been loaded anew since."""

    chat: Chat
    _asked: OrderedDict[str, _Asked] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def start(self, run_id: str) -> RoutingJob:
        """The job of a reply, begun if need be. Raises NotFound, NoModel, RefusedInput for what has no routing."""
        run = self.chat.store.run(run_id)
        facts = desk_for(self.chat, run).facts
        refuse_unreadable(facts.num_experts, encoder=facts.is_encoder_decoder)
        if not run.output_ids:
            raise RefusedInput("This reply has no tokens.")
        with self._lock:
            known = self._asked.get(run_id)
            if known and known.model is self.chat.engine.loaded and known.job.error is None:
                return known.job
            job = RoutingJob(ids=(*run.prompt_ids, *run.output_ids), start=len(run.prompt_ids))
            self._keep(run_id, _Asked(job, self.chat.engine.loaded))
        self.chat.engine.ask(job)
        return job

    def _keep(self, run_id: str, asked: _Asked) -> None:
        if run_id in self._asked:
            self._asked.pop(run_id).job.cancelled.set()
        self._asked[run_id] = asked
        while len(self._asked) > KEPT:
            self._asked.popitem(last=False)[1].job.cancelled.set()

    def job(self, run_id: str) -> RoutingJob:
        """A job that was begun. Raises NotFound for one that is forgotten."""
        with self._lock:
            if run_id not in self._asked:
                raise NotFound("This reply’s routing is no longer kept. Read it again.")
            return self._asked[run_id].job

    def stop(self, run_id: str) -> None:
        """End a job that is still waiting or reading, and forget it."""
        with self._lock:
            if run_id in self._asked and not self._asked[run_id].job.finished.is_set():
                self._asked.pop(run_id).job.cancelled.set()

    def routing(self, run_id: str) -> Routing:
        """What came of it. Raises NotFound, RefusedInput while it isn't ready, or the job's own error."""
        job = self.job(run_id)
        if job.error:
            raise job.error
        if job.routing is None:
            raise RefusedInput("This reply is still being read.")
        return job.routing


def router(chat: Chat) -> APIRouter:
    """Below ``/api/runs/{id}/experts``; positions count all tokens of the reply from 0, layers count those with experts."""
    routes = APIRouter(prefix="/api/runs/{run_id}/experts")
    kept = RoutingDesk(chat)

    @routes.post("")
    def start(run_id: str) -> Json:
        try:
            return _state(kept.start(run_id))
        except RefusedInput as nothing_to_show:  # a dense model is no fault
            return {"done": True, "error": str(nothing_to_show)}

    @routes.get("")
    def state(run_id: str) -> Json:
        return _state(kept.job(run_id))

    @routes.post("/stop")
    def stop(run_id: str) -> Json:
        kept.stop(run_id)
        return {}

    @routes.get("/token")
    def token(run_id: str, position: Annotated[int, Query(ge=0)]) -> Json:
        routing = kept.routing(run_id)
        if position >= len(routing.choice):
            raise RefusedInput(f"It was kept for the first {len(routing.choice):,} tokens.")
        return token_view(routing, position)

    @routes.get("/tokens")
    def tokens(run_id: str, layer: Annotated[int, Query(ge=0)], expert: Annotated[int, Query(ge=0)]) -> Json:
        routing = kept.routing(run_id)
        if layer >= len(routing.layers) or expert >= routing.experts:
            raise RefusedInput(f"There are {len(routing.layers)} layers with {routing.experts} experts each.")
        return tokens_of(routing, layer, expert)

    _add_tables(routes, chat, kept)
    return routes


def _add_tables(routes: APIRouter, chat: Chat, kept: RoutingDesk) -> None:
    @routes.get("/table.{kind}")
    def table(run_id: str, kind: Literal["csv", "json"]) -> StreamingResponse:
        routing, run = kept.routing(run_id), chat.store.run(run_id)
        headers = {"Content-Disposition": f'attachment; filename="experts.{kind}"'}
        return StreamingResponse(_written(chat, run, routing, kind), media_type=_TYPES[kind], headers=headers)


def _written(chat: Chat, run: Run, routing: Routing, kind: str) -> Iterator[str]:
    desk = desk_for(chat, run)
    if kind == "csv":
        return rows(routing, run.output_ids, desk)
    return document(routing, run.output_ids, desk, run=run.id, model=desk.facts.label)


def _state(job: RoutingJob) -> Json:
    """How far a job is, or what came of it."""
    if not job.finished.is_set():
        return {"done": False, "read": job.done, "of": job.wanted}
    if job.error or job.routing is None:
        return {"done": True, "error": str(job.error or "The reading was stopped.")}
    return {"done": True, "error": None, **routing_view(job.routing)}
