"""Conversations to test with, made as the chat makes them: a question, a run, its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.conversation import (
    EMPTY,
    Conversation,
    FinishReason,
    Json,
    Message,
    Role,
    Run,
    RunStatus,
    Stats,
    new_id,
    now,
)
from storage import Store


def conversation(store: Store, title: str = "A talk") -> Conversation:
    made = Conversation(title=title)
    store.create_conversation(made)
    return made


def question(conversation_id: str, parent_id: str | None, text: str) -> Message:
    return Message(new_id(), conversation_id, parent_id, Role.USER, text)


def begin(
    store: Store, conversation_id: str, parent_id: str | None, text: str | None
) -> tuple[Message | None, Message, Run]:
    """Start a reply, below a new question or (text None) right below the parent."""
    asked = None if text is None else question(conversation_id, parent_id, text)
    reply = Message(new_id(), conversation_id, asked.id if asked else parent_id, Role.ASSISTANT, "")
    run = Run(new_id(), reply.id)
    store.begin_run([asked, reply] if asked else [reply], run)
    return asked, reply, run


def ended(run: Run, **changes: Json) -> Run:
    """The run as it ended, with something in every field."""
    done = replace(
        run,
        status=RunStatus.DONE,
        finish_reason=FinishReason.EOS,
        model_fingerprint={"name": "tiny/model", "quantization": "nf4"},
        requested={"temperature": 0.5},
        effective={"temperature": 0.5, "top_k": 0, "seed": 7},
        explained={"temperature": {"source": "user", "reason": "set", "active": True}},
        notes=("a note",),
        seed=7,
        prompt_ids=(1, 2, 3, 49151),
        output_ids=(4, 5),
        stats=Stats(4, 2, 0.25, 20.5, 1),
        finished_at=now(),
    )
    return replace(done, **changes)


def exchange(
    store: Store,
    conversation_id: str,
    parent_id: str | None,
    text: str,
    answer: str,
    changes: Mapping[str, Json] = EMPTY,
) -> tuple[Message, Message]:
    """A question and its finished reply."""
    asked, reply, run = begin(store, conversation_id, parent_id, text)
    assert asked is not None
    store.finish_run(ended(run, **changes), answer, b"a trace")
    return asked, store.message(reply.id)


def regenerate(store: Store, conversation_id: str, parent_id: str, answer: str) -> Message:
    """Another finished reply below a question."""
    _, reply, run = begin(store, conversation_id, parent_id, None)
    store.finish_run(ended(run), answer)
    return store.message(reply.id)


def texts(store: Store, conversation_id: str, leaf_id: str | None = None) -> list[str]:
    return [shown.message.content for shown in store.branch(conversation_id, leaf_id)]


def titles(store: Store, query: str = "", *, trashed: bool = False) -> list[str]:
    return [hit.conversation.title for hit in store.conversations(query, trashed=trashed).hits]
