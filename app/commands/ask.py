"""``fader ask``: one message and its reply, streamed as text or returned as JSON."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from app.conversation import RunStatus
from app.engine.events import Ended, Note, TextDelta
from app.errors import Cancelled, RunFailed

if TYPE_CHECKING:
    from app.chat import Started
    from app.conversation import Json
    from app.engine.line import LoadJob


def loaded(job: LoadJob) -> None:
    """Wait for a load. Raises what it failed with."""
    job.finished.wait()
    if job.error:
        raise job.error


def stream(started: Started) -> Ended:
    """Print the answer as it comes (notes go to stderr) and return the end."""
    for _, event in started.run.events():
        if isinstance(event, TextDelta) and event.index == 0:
            sys.stdout.write(event.text)
            sys.stdout.flush()
        elif isinstance(event, Note):
            sys.stderr.write(f"note: {event.text}\n")
        elif isinstance(event, Ended):
            sys.stdout.write("\n")
            return event
    raise Cancelled


def as_json(started: Started, ended: Ended, model: str | None) -> dict[str, Json]:
    """The record of a reply, as documented for ``fader ask --json``."""
    run = ended.run
    return {
        "run_id": run.id,
        "conversation_id": started.conversation.id,
        "message_id": run.message_id,
        "text": ended.text,
        "finish_reason": run.finish_reason,
        "error": run.error,
        "seed": run.seed,
        "requested": dict(run.requested),
        "effective": dict(run.effective),
        "explained": dict(run.explained),
        "notes": list(run.notes),
        "prompt_ids": list(run.prompt_ids),
        "output_ids": list(run.output_ids),
        "stats": asdict(run.stats),
        "model": model,
    }


def raise_if_failed(ended: Ended) -> None:
    """Raise RunFailed with the run's own sentence when it failed."""
    if ended.run.status is RunStatus.FAILED:
        raise RunFailed(ended.run.error or "The run failed.")
