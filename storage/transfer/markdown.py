"""Markdown: the branch on display, for reading and keeping."""

from __future__ import annotations

from collections.abc import Sequence

from app.conversation import Conversation, Message, Role

_NAMES = {Role.USER: "You", Role.ASSISTANT: "Assistant", Role.SYSTEM: "System"}


def speaker(message: Message) -> str:
    """Who wrote a message, for people: a reply names its model."""
    model = message.run.model_fingerprint.get("name") if message.run else None
    return str(model) if model else _NAMES[message.role]


def write(conversation: Conversation, shown: Sequence[Message]) -> str:
    """One conversation as a section."""
    parts = [f"# {_one_line(conversation.title) or 'Untitled'}", f"*{conversation.created_at:%Y-%m-%d %H:%M} UTC*"]
    if conversation.system_prompt:
        parts += ["## System prompt", conversation.system_prompt.strip()]
    for message in shown:
        parts += [f"## {_one_line(speaker(message))}", message.content.strip()]
    return "\n\n".join(parts) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
