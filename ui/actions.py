"""What a page asks for when it wants a reply: send, edit, regenerate, continue, each with the parameters as the controls show them.

The page sends ids and the new text, never history; the answer names the conversation and the run to follow, or says what was wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.chat import Chat, Started
from app.conversation import Json
from app.errors import RefusedInput
from ui.api_errors import sentence


@dataclass(frozen=True, slots=True)
class Actions:
    """The page's requests for a reply."""

    chat: Chat

    def answer(
        self, asked: Mapping[str, Json], system_prompt: str, requested: Callable[[], Mapping[str, Json]]
    ) -> Json:
        """Carry out one request. Never raises: ``{"nonce", "conversation", "message", "run"}`` or ``{"nonce", "error"}``."""
        nonce = asked.get("nonce")
        try:
            started = self._start(asked, system_prompt, requested())
        except Exception as error:  # noqa: BLE001  (Gradio would show the page an empty error)
            return {"nonce": nonce, "error": sentence(error)}
        ids = {"conversation": started.conversation.id, "message": started.reply.id, "run": started.run.id}
        return {"nonce": nonce, **ids}

    def _start(self, asked: Mapping[str, Json], system_prompt: str, requested: Mapping[str, Json]) -> Started:
        action, message = asked.get("action"), str(asked.get("message") or "")
        if action == "send":
            return self.chat.send(
                str(asked.get("text") or ""),
                conversation_id=asked.get("conversation") or None,
                parent_id=message or None,
                requested=requested,
                preset=str(asked.get("preset") or ""),
                system_prompt=system_prompt,
                prefix=str(asked.get("prefix") or ""),
            )
        self._keep_system_prompt(message, system_prompt)
        if action == "edit":
            return self.chat.edit(message, str(asked.get("text") or ""), requested=requested)
        if action == "regenerate":
            return self.chat.regenerate(message, requested=requested)
        if action == "continue":
            return self.chat.continue_reply(message, requested=requested)
        refusal = f"There is no action {action!r}."
        raise RefusedInput(refusal)

    def _keep_system_prompt(self, message_id: str, system_prompt: str) -> None:
        """The system prompt is the conversation's: what the page shows is what the reply is to follow."""
        conversation = self.chat.store.conversation(self.chat.store.message(message_id).conversation_id)
        if conversation.system_prompt != system_prompt:
            self.chat.store.update_conversation(conversation.id, system_prompt=system_prompt)
