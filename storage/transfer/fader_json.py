"""Fader's own JSON, which keeps everything: all branches, the trash, runs with token ids and traces.

One conversation a line inside one JSON document, so that a file of any size is read and written in pieces, and what stands
before a damaged or missing part is still importable.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from app.conversation import EMPTY, Conversation, FinishReason, Json, Message, Role, Run, RunStatus, Stats
from storage.rows import dump
from storage.transfer.values import Unreadable, moment, need, optional
from storage.tree import Trashed

_Named = TypeVar("_Named", bound=StrEnum)

NAME = "Fader JSON"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Whole:
    """A conversation with all it holds: what ``Store.add_conversation`` takes."""

    conversation: Conversation
    messages: Sequence[Message]
    traces: Mapping[str, bytes] = EMPTY
    trash: Mapping[str, Trashed] = EMPTY


def head(exported_at: datetime) -> str:
    """The first line."""
    about = dump({"format": "fader", "version": VERSION, "exported_at": exported_at.isoformat()})
    return about[:-1] + ',"conversations":[\n'


TAIL = "]}\n"


def write(whole: Whole) -> str:
    """One conversation as one line, without its end."""
    conversation = whole.conversation
    return dump(
        {
            "id": conversation.id,
            "title": conversation.title,
            "model": conversation.model,
            "system_prompt": conversation.system_prompt,
            "parameters": conversation.parameters,
            **({"preset": conversation.preset} if conversation.preset else {}),
            "shown_leaf": conversation.shown_leaf,
            "pinned": conversation.pinned,
            "created_at": conversation.created_at.isoformat(),
            "updated_at": conversation.updated_at.isoformat(),
            "trashed_at": _written(conversation.trashed_at),
            "messages": [_message(message, whole) for message in whole.messages],
        }
    )


def _written(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _message(message: Message, whole: Whole) -> dict[str, Json]:
    told: dict[str, Json] = {
        "id": message.id,
        "parent_id": message.parent_id,
        "role": message.role.value,
        "content": message.content,
        "created_at": message.created_at.isoformat(),
    }
    if message.trashed_at is not None:
        told["trashed_at"] = message.trashed_at.isoformat()
        told["trash"] = asdict(whole.trash.get(message.id, Trashed(message.id)))
    if message.run is not None:
        told["run"] = _run(message.run, whole.traces.get(message.run.id))
    return told


def _run(run: Run, trace: bytes | None) -> dict[str, Json]:
    return {
        "id": run.id,
        "status": run.status.value,
        "finish_reason": run.finish_reason and run.finish_reason.value,
        "model_fingerprint": run.model_fingerprint,
        "requested": run.requested,
        "effective": run.effective,
        "explained": run.explained,
        "notes": run.notes,
        "seed": run.seed,
        "prompt_ids": run.prompt_ids,
        "output_ids": run.output_ids,
        "stats": asdict(run.stats),
        "error": run.error,
        "created_at": run.created_at.isoformat(),
        "finished_at": _written(run.finished_at),
        "trace": None if trace is None else base64.b64encode(trace).decode(),
    }


def check_head(told: Json) -> None:
    """Raises Unreadable unless a document is of this format, in a version that is known."""
    version = need(told, dict, "the document").get("version")
    if told.get("format") != "fader" or version != VERSION:
        raise Unreadable(
            f"it is Fader JSON of version {version!r:.20}, which a later Fader wrote; this one reads version {VERSION}"
        )


def read(told: Json) -> Whole:
    """One conversation; raises Unreadable."""
    need(told, dict, "a conversation")
    conversation = Conversation(
        id=_id(told.get("id"), "id"),
        title=need(told.get("title"), str, "title"),
        model=optional(told.get("model"), str, "model"),
        system_prompt=need(told.get("system_prompt"), str, "system_prompt"),
        parameters=need(told.get("parameters"), dict, "parameters"),
        preset=optional(told.get("preset"), str, "preset") or "",
        shown_leaf=optional(told.get("shown_leaf"), str, "shown_leaf"),
        pinned=need(told.get("pinned"), bool, "pinned"),
        created_at=moment(told.get("created_at"), "created_at"),
        updated_at=moment(told.get("updated_at"), "updated_at"),
        trashed_at=_optional_moment(told, "trashed_at"),
    )
    messages = []
    traces: dict[str, bytes] = {}
    trash: dict[str, Trashed] = {}
    for part in need(told.get("messages"), list, "messages"):
        message = _read_message(need(part, dict, "a message"), conversation.id, traces)
        messages.append(message)
        if message.trashed_at is not None:
            trash[message.id] = _trashed(need(part.get("trash"), dict, "trash"))
    if conversation.shown_leaf is not None and conversation.shown_leaf not in {message.id for message in messages}:
        raise Unreadable("shown_leaf is no message of it")
    return Whole(conversation, messages, traces, trash)


def _trashed(told: Mapping[str, Json]) -> Trashed:
    return Trashed(
        need(told.get("root_id"), str, "root_id"),
        optional(told.get("shown_before"), str, "shown_before"),
        optional(told.get("shown_instead"), str, "shown_instead"),
    )


def _id(value: Json, what: str) -> str:
    id_ = need(value, str, what)
    if not 0 < len(id_) <= _LONGEST_ID or not id_.isascii() or not id_.isprintable():
        raise Unreadable(f"{what} is no id: {id_!r:.80}")
    return id_


_LONGEST_ID = 64


def _optional_moment(told: Mapping[str, Json], name: str) -> datetime | None:
    return None if told.get(name) is None else moment(told[name], name)


def _read_message(told: Mapping[str, Json], conversation_id: str, traces: dict[str, bytes]) -> Message:
    id_ = _id(told.get("id"), "a message's id")
    run = optional(told.get("run"), dict, "run")
    return Message(
        id=id_,
        conversation_id=conversation_id,
        parent_id=optional(told.get("parent_id"), str, "parent_id"),
        role=_member(Role, told.get("role"), "role"),
        content=need(told.get("content"), str, "content"),
        created_at=moment(told.get("created_at"), "created_at"),
        trashed_at=_optional_moment(told, "trashed_at"),
        run=None if run is None else _read_run(run, id_, traces),
    )


def _read_run(told: Mapping[str, Json], message_id: str, traces: dict[str, bytes]) -> Run:
    id_ = _id(told.get("id"), "a run's id")
    if told.get("trace") is not None:
        traces[id_] = _bytes(told["trace"])
    reason = told.get("finish_reason")
    return Run(
        id=id_,
        message_id=message_id,
        status=_member(RunStatus, told.get("status"), "status"),
        finish_reason=None if reason is None else _member(FinishReason, reason, "finish_reason"),
        model_fingerprint=need(told.get("model_fingerprint"), dict, "model_fingerprint"),
        requested=need(told.get("requested"), dict, "requested"),
        effective=need(told.get("effective"), dict, "effective"),
        explained=need(told.get("explained"), dict, "explained"),
        notes=tuple(need(note, str, "a note") for note in need(told.get("notes"), list, "notes")),
        seed=optional(told.get("seed"), int, "seed"),
        prompt_ids=_token_ids(told, "prompt_ids"),
        output_ids=_token_ids(told, "output_ids"),
        stats=_stats(need(told.get("stats"), dict, "stats")),
        error=optional(told.get("error"), str, "error"),
        created_at=moment(told.get("created_at"), "created_at"),
        finished_at=_optional_moment(told, "finished_at"),
    )


def _member(kind: type[_Named], value: Json, what: str) -> _Named:
    try:
        return kind(need(value, str, what))
    except ValueError as error:
        raise Unreadable(f"{what} can't be {value!r:.40}") from error


def _token_ids(told: Mapping[str, Json], what: str) -> tuple[int, ...]:
    ids = tuple(need(id_, int, what) for id_ in need(told.get(what), list, what))
    if any(not -_ID_BOUND <= id_ < _ID_BOUND for id_ in ids):
        raise Unreadable(f"{what} are out of range")
    return ids


_ID_BOUND = 2**63


def _bytes(value: Json) -> bytes:
    try:
        return base64.b64decode(need(value, str, "trace"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unreadable("trace isn't base64") from error


def _stats(told: Mapping[str, Json]) -> Stats:
    known = {field.name for field in fields(Stats)}
    values = {name: value for name, value in told.items() if name in known}
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise Unreadable(f"stats.{name} is no number")
    return Stats(**values)
