"""Routes for the model's inside as a run has kept it where an output_… parameter asked: attention, layers, logits and scores."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from app.chat import Chat
from app.conversation import Json
from app.engine.inside import Inside
from app.errors import NotFound, RefusedInput
from app.insight.lens import Lens
from ui.api_insight import desk_for

PATIENCE_S = 30
"""A lens waits behind the reply that is being written."""
ROWS = 50
"""Tokens a table lists at each position."""


def router(chat: Chat) -> APIRouter:
    """Below ``/api/runs/{id}/inside``; positions count the new tokens of the run from 0."""
    routes = APIRouter(prefix="/api/runs/{run_id}/inside")

    @routes.get("")
    def overview(run_id: str) -> Json:
        inside = inside_of(chat, run_id)
        layers = len(inside.attentions[0]) if inside.attentions else 0
        kept = {name: len(getattr(inside, name)) for name in ("logits", "scores", "hidden_states", "attentions")}
        return {"kept": kept, "layers": layers, "complete": inside.complete}

    @routes.get("/attention")
    def attention(run_id: str, token: Annotated[int, Query(ge=0)], layer: Annotated[int, Query(ge=-1)] = -1) -> Json:
        weights = _at(inside_of(chat, run_id).attentions, token, "output_attentions")
        if layer >= len(weights):
            raise RefusedInput(f"This model has {len(weights)} layers.")
        shown = (weights.float().mean(dim=(0, 1)) if layer < 0 else weights[layer].float().mean(dim=0)).tolist()
        run = chat.store.run(run_id)
        ids = (*run.prompt_ids, *run.output_ids)[: len(shown)]
        return {"weights": [round(w, 5) for w in shown], "texts": list(desk_for(chat, run).texts(ids))}

    @routes.get("/lens")
    def lens(run_id: str, token: Annotated[int, Query(ge=0)]) -> Json:
        hidden = _at(inside_of(chat, run_id).hidden_states, token, "output_hidden_states")
        desk = desk_for(chat, chat.store.run(run_id))
        question = Lens(hidden=hidden)
        chat.engine.ask(question)
        if not question.finished.wait(PATIENCE_S):
            question.cancelled.set()
            raise RefusedInput("The model is busy. Ask again when the reply is written.")
        if question.error:
            raise question.error
        texts = {g.id: desk.pieces([g.id])[0].text for layer in question.layers for g in layer}
        return [[[g.id, texts[g.id], round(g.probability, 5)] for g in layer] for layer in question.layers]

    @routes.get("/{kind}.csv")
    def table(run_id: str, kind: Literal["logits", "scores"]) -> Response:
        rows = getattr(inside_of(chat, run_id), kind)
        if not rows:
            raise RefusedInput(f"This run kept no {kind}: set output_{kind} before it.")
        headers = {"Content-Disposition": f'attachment; filename="{kind}.csv"'}
        return Response(
            _csv(rows, kind, desk_for(chat, chat.store.run(run_id))), media_type="text/csv", headers=headers
        )

    return routes


def inside_of(chat: Chat, run_id: str) -> Inside:
    """What a run has kept. Raises NotFound when there is nothing, with what to do about it."""
    live = chat.live(run_id)
    if live is None or live.inside.empty:
        raise NotFound(
            "Nothing of the model's inside was kept for this reply. Set output_attentions, output_hidden_states, output_scores or "
            "output_logits and regenerate; only the latest replies keep it, and only until Fader is closed."
        )
    return live.inside


def _at(kept: list[Any], token: int, parameter: str) -> Any:
    if not kept:
        raise RefusedInput(f"This run kept none of it: set {parameter} and regenerate.")
    if token >= len(kept):
        raise RefusedInput(f"It was kept for the first {len(kept)} tokens.")
    return kept[token]


def _csv(rows: list[Any], kind: str, desk: Any) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["position", "rank", "token id", "token", kind])
    for position, values in enumerate(rows):
        top = values.topk(min(ROWS, len(values)))
        pieces = desk.pieces(top.indices.tolist())
        for rank, (piece, value) in enumerate(zip(pieces, top.values.tolist(), strict=True)):
            if value > float("-inf"):
                writer.writerow([position, rank, piece.id, piece.text, f"{value:.6g}"])
    return out.getvalue()
