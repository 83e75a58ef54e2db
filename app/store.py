"""What the use cases need of a store of conversations: the Protocol that ``storage/`` fulfils.

Promises every implementation keeps: methods may be called from any thread; a method that returns has committed; a method that
raises a ``StoreError`` has changed nothing; nothing is destroyed except by ``purge``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.conversation import Conversation, Json, Message, Run, ShownMessage


@dataclass(frozen=True, slots=True)
class Hit:
    """A conversation in a list. ``snippet`` is text around the match with the characters 2 and 3 around each matched part,
    and ``message_id`` the message it stands in; both None unless the list answers a query that matched a message."""

    conversation: Conversation
    snippet: str | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of a list; ``more`` says whether another follows. Without a query pinned conversations come first, then the latest
    changed; with one, hits in titles come before hits in messages, each newest first and every conversation once."""

    hits: tuple[Hit, ...]
    more: bool


class ConversationStore(Protocol):
    """Conversations, messages and runs, kept."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that the user must be told: what was recovered, backed up or found damaged. They may grow."""

    def create_conversation(self, conversation: Conversation) -> None:
        """Keep a new, empty conversation."""

    def add_conversation(self, conversation: Conversation, messages: Sequence[Message] = ()) -> None:
        """Keep a whole conversation in one transaction: its messages (parents first) with their runs as they ended."""

    def conversation(self, conversation_id: str) -> Conversation:
        """One conversation, trashed or not; raises NotFound."""

    def conversations(self, query: str = "", *, trashed: bool = False, offset: int = 0, limit: int = 100) -> Page:
        """A page of the list. ``query`` is what a user typed: words (prefix match) and filters such as ``model:ernie``,
        ``after:2026-01-31``, ``has:error``, ``param:temperature>1``; any punctuation is just text."""

    def update_conversation(
        self,
        conversation_id: str,
        *,
        title: str | None = None,
        system_prompt: str | None = None,
        parameters: Mapping[str, Json] | None = None,
        preset: str | None = None,
        model: str | None = None,
        pinned: bool | None = None,
        shown_leaf: str | None = None,
    ) -> Conversation:
        """Change the named fields (None leaves a field alone) and return the result; raises NotFound."""

    def trash(self, conversation_ids: Sequence[str]) -> None:
        """Move conversations to the trash."""

    def restore(self, conversation_ids: Sequence[str]) -> None:
        """Take conversations out of the trash."""

    def purge(self, conversation_ids: Sequence[str]) -> None:
        """Destroy trashed conversations for good; others are left alone."""

    def message(self, message_id: str) -> Message:
        """One message with its run; raises NotFound."""

    def branch(self, conversation_id: str, leaf_id: str | None = None) -> tuple[ShownMessage, ...]:
        """From the root to ``leaf_id`` (default: the shown leaf, else the newest leaf), without trashed messages."""

    def leaf_under(self, message_id: str) -> str:
        """The newest leaf below a message (itself when it has no children): where paging to a sibling leads."""

    def trash_message(self, message_id: str, *, subtree: bool) -> None:
        """Move one message (its children move up to its parent) or its whole subtree to the trash."""

    def restore_message(self, message_id: str) -> None:
        """Undo ``trash_message`` exactly."""

    def begin_run(self, messages: Sequence[Message], run: Run) -> None:
        """In one transaction: add the messages (parents first, the last is the empty reply), add its run, show that reply."""

    def flush_run(self, run_id: str, content: str, status: str) -> None:
        """Keep the partial text of a running reply."""

    def finish_run(self, run: Run, content: str, trace: bytes | None = None) -> None:
        """In one transaction: the final text, the run as it ended, and its trace."""

    def run(self, run_id: str) -> Run:
        """One run; raises NotFound."""

    def trace(self, run_id: str) -> bytes | None:
        """The stored trace of a run, if it has one."""

    def interrupt_orphans(self) -> int:
        """Mark unfinished runs whose process has ended as interrupted, keeping their text; returns how many."""

    def presets(self) -> Mapping[str, Mapping[str, Json]]:
        """The user's own presets by name."""

    def save_preset(self, name: str, parameters: Mapping[str, Json]) -> None:
        """Add or replace a preset."""

    def delete_preset(self, name: str) -> None:
        """Remove a preset; raises NotFound."""

    def setting(self, key: str) -> Json:
        """A small remembered value of the page (the last model, a model's default preset); None when never set."""

    def save_setting(self, key: str, value: Json) -> None:
        """Remember a small value."""

    def close(self) -> None:
        """Finish pending writes and close the file."""
