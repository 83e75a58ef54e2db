"""The use cases: send, edit, regenerate, continue, branch, stop. The only writer of conversations.

Every method returns as soon as the user's words are safely stored and the run is queued; the reply then comes through
``live(run_id)`` whoever watches. Also the public Python API (docs/api.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.conversation import EMPTY, Conversation, Json, Message
from app.engine.engine import Engine
from app.engine.run import LiveRun
from app.settings import Settings
from app.store import ConversationStore


@dataclass(frozen=True, slots=True)
class Started:
    """A reply under way: its conversation, the (empty) reply message, and the live run."""

    conversation: Conversation
    reply: Message
    run: LiveRun


class Chat:
    """Use cases over a store and an engine. All methods may be called from any thread."""

    def __init__(self, store: ConversationStore, engine: Engine, settings: Settings) -> None:
        self.store = store
        self.engine = engine
        self.settings = settings

    def send(
        self,
        text: str,
        *,
        conversation_id: str | None = None,
        parent_id: str | None = None,
        requested: Mapping[str, Json] = EMPTY,
        system_prompt: str | None = None,
        prefix: str = "",
    ) -> Started:
        """Store a user message below ``parent_id`` (default: the shown leaf) and start the reply; without an id a new
        conversation is made, titled from the text. ``requested`` holds only the parameters that are set.

        Raises RefusedInput for a blank or over-long text, BadParameter, NotFound, StoreError.
        """

    def edit(self, message_id: str, text: str, *, requested: Mapping[str, Json] = EMPTY) -> Started:
        """Make a sibling of a user message with other text and start its reply."""

    def regenerate(self, message_id: str, *, requested: Mapping[str, Json] = EMPTY) -> Started:
        """Start another reply beside an assistant message (or below a user message)."""

    def continue_reply(self, message_id: str, *, requested: Mapping[str, Json] = EMPTY) -> Started:
        """Start a sibling reply that begins with all tokens of this one and goes on."""

    def branch(self, message_id: str) -> Conversation:
        """Copy the path up to a message into a new conversation and return it."""

    def stop(self, run_id: str) -> bool:
        """End a run's computation; False when no such run is alive."""

    def live(self, run_id: str) -> LiveRun | None:
        """A run that is alive or ended a short while ago, for reading its events."""
