"""What happens in a run, as frozen events; a run's log numbers them from 1 without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from app.conversation import Run, RunStatus


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The run moved on; ``detail`` is a sentence for the user, e.g. its place in the queue."""

    status: RunStatus
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` of ``total`` steps of ``what`` (tokens of the prompt, bytes of a file, beam steps); total 0 means unknown."""

    what: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the reply. ``kind`` tells thinking from the answer, and "mark" is a thinking tag, not to be shown; all of them
    joined in order are the message's content.

    ``index``: which of several returned sequences (num_return_sequences) it belongs to.
    """

    text: str
    kind: Literal["answer", "thinking", "mark"] = "answer"
    index: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about this run that the user should see, e.g. what was left out of the prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One reply as it is to be kept: its run, its whole text, and the packed trace if there is one."""

    run: Run
    text: str
    trace: bytes | None = None


@dataclass(frozen=True, slots=True)
class Ended(Outcome):
    """The last event: the run as it ended. ``siblings``: further sequences of it (num_return_sequences), with run ids of their own."""

    siblings: tuple[Outcome, ...] = ()


Event: TypeAlias = StatusChanged | Progress | TextDelta | Note | Ended
