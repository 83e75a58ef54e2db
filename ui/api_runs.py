"""Routes for following and stopping runs: small, quick, and safe to call from any number of tabs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.chat import Chat
from app.conversation import Json
from ui.live_view import LiveViews, place_in_queue
from ui.views import run_view, segments

LONGEST_WAIT_S = 0.3
"""A request waits at most this long for news: browsers open six connections per host only, shared by all tabs."""


def router(chat: Chat) -> APIRouter:
    """``GET /api/runs/{id}?after=n&wait=s`` and ``POST /api/runs/{id}/stop``."""
    routes = APIRouter(prefix="/api/runs")
    views = LiveViews()

    @routes.get("/{run_id}")
    def follow(
        run_id: str,
        after: Annotated[int, Query(ge=0)] = 0,
        wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S)] = 0,
    ) -> Json:
        run = chat.live(run_id)
        if run is None:
            return _stored(chat, run_id)
        view = views.of(run).since(after, wait)
        return {**view, "place": place_in_queue(run, chat.engine.queue())}

    @routes.post("/{run_id}/stop")
    def stop(run_id: str) -> Json:
        return {"stopped": chat.stop(run_id)}

    return routes


def _stored(chat: Chat, run_id: str) -> Json:
    """A run that isn't alive here: as it was stored. One that another Fader is writing shows what has been kept so far."""
    run = chat.store.run(run_id)
    message = chat.store.message(run.message_id)
    view = {
        "seq": 0,
        "status": str(run.status),
        "detail": "",
        "segments": [],
        "notes": list(run.notes),
        "progress": None,
    }
    final = {"final": segments(message.content), "text": message.content, "run": run_view(run)}
    return {**view, **final, "done": run.status.final, "elsewhere": not run.status.final, "place": 0}
