"""A foreign conversation on its way in: what every format is brought into before it becomes domain objects.

Ids are made from the content, so the same file imported twice gives the same ids and adds nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.conversation import EMPTY, Conversation, Json, Message, Role, Run, RunStatus, now
from storage.rows import clean
from storage.transfer.values import Unreadable


@dataclass(frozen=True, slots=True)
class Turn:
    """One message; ``parent`` is the index of an earlier turn of the draft, None for a beginning."""

    role: Role
    content: str
    parent: int | None
    created_at: datetime | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """One conversation; ``shown``: index of the turn at the end of the branch on display. ``left_out``: what Fader has no place
    for, with counts."""

    title: str
    turns: tuple[Turn, ...]
    system_prompt: str = ""
    shown: int | None = None
    pinned: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None
    left_out: Mapping[str, int] = EMPTY

    def build(self, source: str) -> tuple[Conversation, tuple[Message, ...]]:
        """The draft as domain objects; ``source`` names the format. Raises Unreadable when there is nothing in it."""
        if not self.turns:
            raise Unreadable("it has no messages")
        id_ = self._id(source)
        began = self.created_at or next((turn.created_at for turn in self.turns if turn.created_at), None) or now()
        messages = tuple(self._message(id_, index, turn, began) for index, turn in enumerate(self.turns))
        shown = len(self.turns) - 1 if self.shown is None else self.shown
        conversation = Conversation(
            id=id_,
            title=self.title.strip() or self.turns[0].content.strip()[:60],
            system_prompt=self.system_prompt,
            shown_leaf=messages[shown].id,
            pinned=self.pinned,
            created_at=began,
            updated_at=self.updated_at or max(message.created_at for message in messages),
        )
        return conversation, messages

    def _id(self, source: str) -> str:
        turns = [[turn.role.value, turn.content, turn.parent, turn.model] for turn in self.turns]
        told: Json = [source, self.title, self.system_prompt, self.created_at and self.created_at.isoformat(), turns]
        return _digest(json.dumps(told))

    def _message(self, conversation_id: str, index: int, turn: Turn, began: datetime) -> Message:
        id_ = _digest(f"{conversation_id} {index}")
        at = turn.created_at or began + timedelta(milliseconds=index)
        run = None
        if turn.role is Role.ASSISTANT and turn.model:
            run = Run(
                id=_digest(f"{id_} run"),
                message_id=id_,
                status=RunStatus.DONE,
                model_fingerprint={"name": clean(turn.model)},
                created_at=at,
                finished_at=at,
            )
        parent = None if turn.parent is None else _digest(f"{conversation_id} {turn.parent}")
        return Message(id_, conversation_id, parent, turn.role, turn.content, at, run=run)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Node:
    """A message of a format that names parents by id; ``turn`` None for one that is passed over."""

    id: str
    parent: str | None
    turn: Turn | None


def in_order(nodes: Iterable[Node]) -> tuple[tuple[Turn, ...], dict[str, int]]:
    """The turns of a tree, parents first and else in the order given, and by node id the index of its turn (or of the nearest
    ancestor's, for one that is passed over). Raises Unreadable for a circle."""
    by_id = {node.id: node for node in nodes}
    children: dict[str | None, list[str]] = {}
    for node in by_id.values():
        children.setdefault(node.parent if node.parent in by_id else None, []).append(node.id)
    turns: list[Turn] = []
    places: dict[str, int] = {}
    todo: list[tuple[str, int | None]] = [(id_, None) for id_ in reversed(children.get(None, []))]
    reached = 0
    while todo:
        id_, parent = todo.pop()
        reached += 1
        turn = by_id[id_].turn
        if turn is not None:
            turns.append(Turn(turn.role, turn.content, parent, turn.created_at, turn.model))
            parent = len(turns) - 1
        if parent is not None:
            places[id_] = parent
        todo += [(child, parent) for child in reversed(children.get(id_, []))]
    if reached < len(by_id):
        raise Unreadable("its messages refer to each other in a circle")
    return tuple(turns), places


def in_line(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Turns that simply follow each other."""
    return tuple(
        Turn(turn.role, turn.content, index - 1 if index else None, turn.created_at, turn.model)
        for index, turn in enumerate(turns)
    )
