"""Writing conversations in every format, piece by piece from one state of the store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from app.conversation import Conversation, Message, now
from app.errors import RefusedInput
from app.transfer import ExportFormat
from storage import listing, messages, runs
from storage.faults import translated
from storage.transfer import fader_json, html, markdown, openai_jsonl

Writer = Callable[[Conversation, Sequence[Message]], str]


def export(db: sqlite3.Connection, form: ExportFormat, conversation_ids: Sequence[str] | None) -> Iterator[str]:
    """The text of an export; raises NotFound for an unknown id before the first piece."""
    ids = [listing.get(db, id_).id for id_ in conversation_ids] if conversation_ids is not None else _all(db, form)
    if form is ExportFormat.FADER_JSON:
        yield fader_json.head(now())
        for place, id_ in enumerate(ids, start=1):
            yield fader_json.write(_whole(db, id_)) + (",\n" if place < len(ids) else "\n")
        yield fader_json.TAIL
        return
    before, write, between, after = _FORMS[form]
    yield before
    for place, id_ in enumerate(ids):
        shown = [one.message for one in messages.branch(db, id_, None)]
        yield (between if place else "") + write(listing.get(db, id_), shown)
    yield after


_FORMS: Mapping[ExportFormat, tuple[str, Writer, str, str]] = MappingProxyType(
    {
        ExportFormat.MARKDOWN: ("", markdown.write, "\n---\n\n", ""),
        ExportFormat.HTML: (html.HEAD, html.write, "", html.TAIL),
        ExportFormat.OPENAI_JSONL: ("", lambda *told: openai_jsonl.write(*told) + "\n", "", ""),
    }
)
"""What stands before, how one is written, what stands between two, what stands after."""


def _all(db: sqlite3.Connection, form: ExportFormat) -> list[str]:
    """All conversations, oldest first: an order that an import keeps."""
    trash = form is ExportFormat.FADER_JSON
    rows = db.execute("SELECT id FROM conversations WHERE trashed_at IS NULL OR ? ORDER BY created_at, id", (trash,))
    return [id_ for (id_,) in rows]


def _whole(db: sqlite3.Connection, conversation_id: str) -> fader_json.Whole:
    everything, trash = messages.whole(db, conversation_id)
    found = ((message.run.id, runs.trace(db, message.run.id)) for message in everything if message.run)
    traces = {run_id: data for run_id, data in found if data is not None}
    return fader_json.Whole(listing.get(db, conversation_id), everything, traces, trash)


def form_of(file: Path) -> ExportFormat:
    """The format that a file's name asks for; raises RefusedInput."""
    suffix = file.suffix.lower().lstrip(".")
    wanted = {"markdown": "md", "htm": "html"}.get(suffix, suffix)
    if wanted not in set(ExportFormat):
        raise RefusedInput(f"{file.name}: name a file that ends in .json, .md, .html or .jsonl.")
    return ExportFormat(wanted)


def write_file(file: Path, pieces: Iterator[str]) -> None:
    """Write a file that is complete or not there. Raises StoreError."""
    partial = file.with_name(file.name + ".partial")
    with translated(file):
        try:
            with partial.open("w", encoding="utf-8", newline="\n") as out:
                for piece in pieces:
                    out.write(piece)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
