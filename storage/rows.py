"""Rows to domain objects and back: the only place that knows how times and JSON are stored.

Times are whole microseconds since 1970 in UTC. JSON that many runs share (parameters, explanations, fingerprints) is
kept once in ``documents`` and referred to by key.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from app.conversation import EMPTY, Conversation, FinishReason, Json, Message, Role, Run, RunStatus, Stats
from app.errors import DamagedDatabase
from storage.tokens import Tokens

P = ParamSpec("P")
T = TypeVar("T")

Row = sqlite3.Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STATS = frozenset(field.name for field in fields(Stats))


def stamp(moment: datetime) -> int:
    """An aware datetime as stored: microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def optional_stamp(moment: datetime | None) -> int | None:
    """Like ``stamp``; None stays None."""
    return None if moment is None else stamp(moment)


def moment(stamped: int) -> datetime:
    """The stored time as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=stamped)


def optional_moment(stamped: int | None) -> datetime | None:
    """Like ``moment``; None stays None."""
    return None if stamped is None else moment(stamped)


def clean(text: str) -> str:
    """Text that UTF-8 can hold: half surrogate pairs, which JavaScript can make, become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def dump(value: Json) -> str:
    """JSON as stored: compact, in the order given."""
    return clean(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain))


def _plain(value: object) -> Json:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


@lru_cache(maxsize=512)
def load_mapping(text: str | None) -> Mapping[str, Json]:
    """Stored JSON as a read-only mapping; None reads as empty. Remembered, because many runs have the same."""
    return MappingProxyType(json.loads(text)) if text else EMPTY


def dump_stats(stats: Stats) -> str:
    """A run's figures as stored."""
    return dump(asdict(stats))


def load_stats(text: str) -> Stats:
    """A run's figures; a field that this version doesn't know is left out."""
    return Stats(**{name: value for name, value in json.loads(text).items() if name in _STATS})


def _sound(convert: Callable[P, T]) -> Callable[P, T]:
    """A converter whose failure says that the row is damaged."""

    @wraps(convert)
    def converted(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return convert(*args, **kwargs)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise DamagedDatabase(
                f"A row of the database is damaged ({error}). The newest backup may have it whole."
            ) from error

    return converted


@_sound
def conversation_of(row: Row) -> Conversation:
    """A conversation from its row."""
    return Conversation(
        id=row["id"],
        title=row["title"],
        model=row["model"],
        system_prompt=row["system_prompt"],
        parameters=load_mapping(row["parameters"]),
        preset=row["preset"],
        shown_leaf=row["shown_leaf"],
        pinned=bool(row["pinned"]),
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        trashed_at=optional_moment(row["trashed_at"]),
    )


@_sound
def message_of(row: Row, conversation_id: str, parent_id: str | None, run: Run | None) -> Message:
    """A message from its row; its neighbours in the tree are known to the caller."""
    return Message(
        id=row["id"],
        conversation_id=conversation_id,
        parent_id=parent_id,
        role=Role(row["role"]),
        content=row["content"],
        created_at=moment(row["created_at"]),
        trashed_at=optional_moment(row["trashed_at"]),
        run=run,
    )


RUN_COLUMNS = """
    r.message AS run_key, r.id AS run_id, r.status, r.finish_reason, r.notes, r.seed, r.stats, r.error,
    r.created_at AS run_created_at, r.finished_at, r.owner,
    f.body AS fingerprint, q.body AS requested, e.body AS effective, x.body AS explained
"""
"""What ``run_of`` reads, of a query joined with ``RUN_JOINS``."""

RUN_JOINS = """
    LEFT JOIN documents f ON f.key = r.fingerprint
    LEFT JOIN documents q ON q.key = r.requested
    LEFT JOIN documents e ON e.key = r.effective
    LEFT JOIN documents x ON x.key = r.explained
"""


@_sound
def run_of(row: Row, message_id: str, tokens: Tokens) -> Run:
    """A run from a row with ``RUN_COLUMNS`` and its token ids."""
    seed = row["seed"]
    return Run(
        id=row["run_id"],
        message_id=message_id,
        status=RunStatus(row["status"]),
        finish_reason=FinishReason(row["finish_reason"]) if row["finish_reason"] else None,
        model_fingerprint=load_mapping(row["fingerprint"]),
        requested=load_mapping(row["requested"]),
        effective=load_effective(row["effective"], seed),
        explained=load_mapping(row["explained"]),
        notes=tuple(json.loads(row["notes"])),
        seed=None if seed is None else int(seed),
        prompt_ids=tokens.prompt,
        output_ids=tokens.output,
        stats=load_stats(row["stats"]),
        error=row["error"],
        created_at=moment(row["run_created_at"]),
        finished_at=optional_moment(row["finished_at"]),
    )


SEED_HERE = "\x00seed"
"""Stands for the run's own seed in a stored ``effective``: all else alike, two runs then share one document."""


def storable_effective(run: Run) -> Mapping[str, Json]:
    """The effective parameters with the run's own seed taken out."""
    if run.seed is None or type(run.effective.get("seed")) is not int or run.effective["seed"] != run.seed:
        return run.effective
    return {name: SEED_HERE if name == "seed" else value for name, value in run.effective.items()}


def load_effective(text: str | None, seed: str | None) -> Mapping[str, Json]:
    """The effective parameters with the run's seed put back."""
    stored = load_mapping(text)
    if stored.get("seed") != SEED_HERE or seed is None:
        return stored
    values: dict[str, Any] = dict(stored)
    values["seed"] = int(seed)
    return MappingProxyType(values)
