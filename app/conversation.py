"""The domain: conversations, messages and runs as frozen values without I/O.

A conversation is a tree. A message knows its parent only; siblings (an edited question, a regenerated reply) share one.
Every assistant message has exactly one run, which says how its text came about. Times are aware datetimes in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias
from uuid import uuid4

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict of these."""


class _Nothing(Mapping[str, Json]):
    """A mapping without entries that can't get any; hashable, as a dataclass default must be (a mappingproxy is not before 3.12)."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Json:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"


EMPTY: Mapping[str, Json] = _Nothing()


class Role(StrEnum):
    """Who wrote a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class RunStatus(StrEnum):
    """Where a run stands; the last four are final."""

    QUEUED = "queued"
    LOADING = "loading"
    PREFILL = "prefill"
    GENERATING = "generating"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def final(self) -> bool:
        """True once nothing more will happen."""
        return self in _FINAL


_FINAL = frozenset({RunStatus.DONE, RunStatus.STOPPED, RunStatus.FAILED, RunStatus.INTERRUPTED})


class FinishReason(StrEnum):
    """Why a reply ended."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    LENGTH = "length"
    TIME = "time"
    STOPPED = "stopped"
    ERROR = "error"


def now() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """An opaque random id (32 hex digits): two made in the same instant never collide."""
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Conversation:
    """A tree of messages; ``parameters`` holds only what is set, ``preset`` names the one they began with ("": none), ``shown_leaf`` is
    the end of the branch on display."""

    id: str = field(default_factory=new_id)
    title: str = ""
    model: str | None = None
    system_prompt: str = ""
    parameters: Mapping[str, Json] = EMPTY
    preset: str = ""
    shown_leaf: str | None = None
    pinned: bool = False
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    trashed_at: datetime | None = None


FAST = "fast step"
"""What a run's fingerprint says of ``decode`` when Fader's own step computed its tokens; else it is the library and, in brackets, why."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of a run: tokens, seconds (``ttft_s`` from submit to first text), tokens per second while decoding.

    ``drafted_by``: who guessed tokens ahead, None for nobody; ``passes``: steps of the model that the tokens took; ``gain``: how many
    times as quick they were as without guesses, as measured here. Where nobody guessed: what prompt lookup would have taken and gained.
    """

    prompt_tokens: int = 0
    new_tokens: int = 0
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    reused_tokens: int = 0
    drafted_by: str | None = None
    passes: int = 0
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """How a reply came about: what was asked for, what generate really ran with, and how it ended.

    ``requested`` holds only what was set; ``effective`` every parameter's value as read back inside the run; ``explained``
    per parameter ``{"source", "reason", "active"}``, and with ``context_policy`` the ids of ``omitted`` messages, if there are any.
    ``model_fingerprint``: name, revision or hash, quantization, versions.
    """

    id: str
    message_id: str
    status: RunStatus = RunStatus.QUEUED
    finish_reason: FinishReason | None = None
    model_fingerprint: Mapping[str, Json] = EMPTY
    requested: Mapping[str, Json] = EMPTY
    effective: Mapping[str, Json] = EMPTY
    explained: Mapping[str, Json] = EMPTY
    notes: tuple[str, ...] = ()
    seed: int | None = None
    prompt_ids: tuple[int, ...] = ()
    output_ids: tuple[int, ...] = ()
    stats: Stats = Stats()
    error: str | None = None
    created_at: datetime = field(default_factory=now)
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One node of the tree; ``content`` is the raw text. ``run`` is there for assistant messages that were generated."""

    id: str
    conversation_id: str
    parent_id: str | None
    role: Role
    content: str
    created_at: datetime = field(default_factory=now)
    trashed_at: datetime | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message on the branch on display, with its place among its siblings (ids in order of creation)."""

    message: Message
    siblings: tuple[str, ...]

    @property
    def place(self) -> int:
        """Index among the siblings, from 0."""
        return self.siblings.index(self.message.id)
