"""Routes of the playground: a finished reply's tokens and what other settings would have done, replays, and texts put to the model."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.chat import Chat, Started
from app.conversation import Json, Run, new_id
from app.engine.desk import Desk
from app.engine.held import no_desk
from app.engine.score import ScoreJob, check
from app.errors import NoModel, NotFound, RefusedInput, RunFailed
from app.insight.effects import effects
from app.insight.perplexity import perplexity
from app.insight.recorded import Recordings, elsewhere
from app.insight.watermark import detect
from app.parameters.validate import validate
from ui.insight_views import (
    detection_view,
    effects_view,
    perplexity_view,
    prediction_view,
    readable,
    replay_view,
    server_tokens_view,
    tokens_view,
)

LONGEST_TEXT = 200_000
"""Characters of a text put to the tokenizer."""


class Changes(BaseModel):
    """Parameters moved on a finished reply; null switches one off."""

    changes: dict[str, Json] = {}


class BranchToken(BaseModel):
    """Where to part from a reply: ``position`` counts its output tokens from 0; ``token`` is an id, or typed text; with
    ``new_draws`` the reply goes on with another seed."""

    position: Annotated[int, Field(ge=0)]
    token: int | str = ""
    new_draws: bool = False


class Text(BaseModel):
    """A text for the tokenizer. ``control``: control tokens that it spells count as such."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)]
    control: bool = False


class Ids(BaseModel):
    """Token ids to be read as text."""

    ids: Annotated[list[int], Field(max_length=100_000)]


class Marked(BaseModel):
    """A text, or a reply's run, to be held against a watermark's settings (null: those the reply was written with)."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    run: str | None = None
    config: dict[str, Json] | None = None


@dataclass
class Jobs:
    """The last scored texts, until somebody asks what came of them."""

    _jobs: OrderedDict[str, ScoreJob] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def add(self, job: ScoreJob) -> str:
        """Keep a job and return its id; only a few are kept."""
        with self._lock:
            key = new_id()
            self._jobs[key] = job
            while len(self._jobs) > 16:
                self._jobs.popitem(last=False)[1].cancelled.set()
            return key

    def get(self, key: str) -> ScoreJob:
        """One job. Raises NotFound for one that is forgotten."""
        with self._lock:
            if key not in self._jobs:
                raise NotFound("This text is no longer kept. Score it again.")
            return self._jobs[key]


def router(chat: Chat) -> APIRouter:
    """Everything below ``/api``."""
    routes = APIRouter(prefix="/api")
    recordings = Recordings(chat.store)
    _add_reply(routes, chat, recordings)
    _add_branches(routes, chat, recordings)
    _add_replay(routes, chat)
    _add_texts(routes, chat)
    return routes


def _add_reply(routes: APIRouter, chat: Chat, recordings: Recordings) -> None:
    @routes.get("/runs/{run_id}/tokens")
    def tokens(run_id: str) -> Json:
        recorded = recordings.of(run_id)
        if recorded.elsewhere:
            return server_tokens_view(recorded)
        return tokens_view(recorded, desk_for(chat, recorded.run))

    @routes.get("/runs/{run_id}/effects")
    def report(run_id: str) -> Json:
        recorded = recordings.of(run_id)
        return effects_view(effects(recorded.run, recorded.traced()))

    @routes.post("/runs/{run_id}/what-if")
    def what_if(run_id: str, body: Changes) -> Json:
        recorded = recordings.of(run_id)
        prediction = recorded.what_if(body.changes)
        return prediction_view(prediction, recorded.setting(body.changes), recorded.traced(), chat.engine.desk)


def _add_branches(routes: APIRouter, chat: Chat, recordings: Recordings) -> None:
    @routes.post("/messages/{message_id}/token")
    def branch(message_id: str, body: BranchToken) -> Json:
        run = chat.store.message(message_id).run
        if run is None:
            raise RefusedInput("This reply was not written by a model here.")
        desk_for(chat, run)
        other = {name: value for name, value in run.requested.items() if name != "seed"}
        return _started(
            chat.branch_token(message_id, body.position, body.token, requested=other if body.new_draws else None)
        )

    @routes.post("/runs/{run_id}/for-real")
    def for_real(run_id: str, body: Changes) -> Json:
        recorded = recordings.of(run_id)
        desk_for(chat, recorded.run)
        asked = recorded.request(body.changes)
        return _started(chat.branch_token(recorded.run.message_id, recorded.taken_over, "", requested=asked))


def _add_replay(routes: APIRouter, chat: Chat) -> None:
    @routes.post("/runs/{run_id}/replay")
    def start(run_id: str) -> Json:
        desk_for(chat, chat.store.run(run_id))
        return {"replay": chat.replay(run_id).id}

    @routes.get("/runs/{run_id}/replay/{replay_id}")
    def result(run_id: str, replay_id: str) -> Json:
        live = chat.live(replay_id)
        if live is None:
            raise NotFound("This replay is no longer kept. Start it again.")
        if live.ended is None:
            whole = len(chat.store.message(chat.store.run(run_id).message_id).content)
            return {"done": False, "status": str(live.status), "share": min(1.0, len(live.text()) / max(1, whole))}
        try:
            outcome = chat.check_replay(run_id, live)
        except RunFailed as error:
            return {"done": True, "error": str(error)}
        return {
            "done": True,
            "error": None,
            "stopped": live.cancelled.is_set(),
            **replay_view(outcome, chat.engine.desk),
        }


def _add_texts(routes: APIRouter, chat: Chat) -> None:
    jobs = Jobs()

    @routes.post("/tokenize")
    def tokenize(body: Text) -> Json:
        found = desk_of(chat).tokenize(body.text, literal=not body.control)
        return {"tokens": readable(desk_of(chat), [piece.id for piece in found])}

    @routes.post("/detokenize")
    def detokenize(body: Ids) -> Json:
        desk = desk_of(chat)
        size = len(desk.tokenizer)
        wrong = next((i for i in body.ids if not 0 <= i < size), None)
        if wrong is not None:
            raise RefusedInput(f"There is no token {wrong}: ids go from 0 to {size - 1:,}.")
        return {"text": desk.decode(body.ids), "tokens": readable(desk, body.ids)}

    @routes.post("/perplexity")
    def score(body: Text) -> Json:
        desk = desk_of(chat)
        ids = tuple(piece.id for piece in desk.tokenize(body.text, literal=not body.control))
        check(ids, desk.facts)
        return {"job": jobs.add(chat.engine.score(ids)), "tokens": len(ids)}

    @routes.get("/perplexity/{job_id}")
    def scored(job_id: str) -> Json:
        job = jobs.get(job_id)
        if not job.finished.is_set():
            return {"done": False, "read": job.done}
        if job.error or job.trace is None:
            return {"done": True, "error": str(job.error or "The scoring was stopped.")}
        desk = desk_of(chat)
        text = "".join(desk.texts(job.ids)[1:])
        return {"done": True, "error": None, **perplexity_view(perplexity(job.trace, text), job.ids, job.trace, desk)}

    @routes.post("/watermark")
    def watermark(body: Marked) -> Json:
        desk = desk_of(chat)
        run = chat.store.run(body.run) if body.run else None
        given = body.config or (run.effective.get("watermarking_config") if run else None) or {"kind": "greenlist"}
        config = validate({"watermarking_config": given})["watermarking_config"]
        ids = run.output_ids if run else tuple(piece.id for piece in desk.tokenize(body.text, literal=True))
        ids = tuple(i for i in ids if i not in desk.facts.eos_token_ids)
        device = desk.facts.device.partition(":")[0]
        found = detect(ids, config, desk.facts.vocab_size, context=run.prompt_ids if run else (), device=device)
        return {**detection_view(found), "config": config}


def desk_of(chat: Chat) -> Desk:
    """The loaded model's tokenizer. Raises NoModel."""
    if chat.engine.desk is None:
        raise no_desk(chat.engine.status())
    return chat.engine.desk


def desk_for(chat: Chat, run: Run) -> Desk:
    """The tokenizer that a run's ids belong to. Raises NoModel while another model, or none, is loaded; RefusedInput for a reply that
    came from a server."""
    if reason := elsewhere(run):
        raise RefusedInput(reason)
    desk = desk_of(chat)
    written, loaded = run.model_fingerprint.get("name"), desk.facts.fingerprint.get("name")
    if written is not None and loaded is not None and written != loaded:
        raise NoModel(
            f"This reply was written by {written}, whose tokens {loaded} can't read. Load {written} to look at it."
        )
    return desk


def _started(started: Started) -> Json:
    return {"conversation": started.conversation.id, "message": started.reply.id, "run": started.run.id}
