"""The store: conversations, messages and runs in one SQLite file, behind ``app.store.ConversationStore``.

Only names and domain objects go in and out; each method is one transaction of the room's modules for rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from app.conversation import EMPTY, Conversation, Json, Message, Run, ShownMessage, new_id
from app.errors import NotFound, RefusedInput
from app.store import Page
from app.transfer import ExportFormat, ImportReport
from storage import listing, messages, preferences, runs
from storage.backup import DailyBackups, copy_database
from storage.database import Database
from storage.owners import Owners
from storage.transfer import exporting, importing
from storage.transfer.fader_json import Whole
from storage.tree import Trashed


class Store:
    """A ``ConversationStore`` over one file."""

    def __init__(
        self,
        database: Database,
        owners: Owners | None,
        notices: Sequence[str] = (),
        backups: DailyBackups | None = None,
    ) -> None:
        """``owners``: None for a file that can only be read."""
        self._db = database
        self._backups = backups
        self._owners = owners
        self._owner = owners.own if owners else new_id()
        self._notices = tuple(notices)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user must be told about the opening, and about damage that the daily backup has found since."""
        damage = self._backups.damage if self._backups else None
        return (*self._notices, damage) if damage else self._notices

    # Conversations

    def create_conversation(self, conversation: Conversation) -> None:
        """Keep a new, empty conversation; raises RefusedInput when its id is taken."""
        self.add_conversation(conversation)

    def add_conversation(
        self,
        conversation: Conversation,
        messages: Sequence[Message] = (),
        traces: Mapping[str, bytes] = EMPTY,
        trash: Mapping[str, Trashed] = EMPTY,
    ) -> None:
        """Keep a whole conversation in one transaction: its messages (parents first) with their runs as they ended, and traces by
        run id; raises RefusedInput when an id is taken."""
        self._db.write(partial(listing.add, conversation=conversation, messages=messages, traces=traces, trash=trash))

    def conversation(self, conversation_id: str) -> Conversation:
        """One conversation, trashed or not; raises NotFound."""
        with self._db.read() as db:
            return listing.get(db, conversation_id)

    def conversations(self, query: str = "", *, trashed: bool = False, offset: int = 0, limit: int = 100) -> Page:
        """A page of the list. Without a query pinned conversations come first, then the latest changed. With one, titles that
        match come before messages that match, each newest first, and every conversation once."""
        with self._db.read() as db:
            return listing.page(db, query, trashed=trashed, offset=max(offset, 0), limit=limit)

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
        changes = {
            "title": title,
            "system_prompt": system_prompt,
            "parameters": parameters,
            "preset": preset,
            "model": model,
            "pinned": pinned,
            "shown_leaf": shown_leaf,
        }
        wanted = {name: value for name, value in changes.items() if value is not None}
        return self._db.write(partial(listing.update, conversation_id=conversation_id, changes=wanted))

    def trash(self, conversation_ids: Sequence[str]) -> None:
        """Move conversations to the trash."""
        self._db.write(partial(listing.trash, conversation_ids=conversation_ids))

    def restore(self, conversation_ids: Sequence[str]) -> None:
        """Take conversations out of the trash."""
        self._db.write(partial(listing.restore, conversation_ids=conversation_ids))

    def purge(self, conversation_ids: Sequence[str]) -> None:
        """Destroy trashed conversations for good; others are left alone."""
        self._db.write(partial(listing.purge, conversation_ids=conversation_ids))

    # Messages

    def message(self, message_id: str) -> Message:
        """One message with its run; raises NotFound."""
        with self._db.read() as db:
            return messages.get(db, message_id)

    def messages(self, conversation_id: str) -> tuple[Message, ...]:
        """All messages of a conversation, trashed ones too, parents first; raises NotFound."""
        with self._db.read() as db:
            return messages.whole(db, conversation_id)[0]

    def branch(self, conversation_id: str, leaf_id: str | None = None) -> tuple[ShownMessage, ...]:
        """From the root to ``leaf_id`` (default: the shown leaf, else the newest leaf), without trashed messages."""
        with self._db.read() as db:
            return messages.branch(db, conversation_id, leaf_id)

    def leaf_under(self, message_id: str) -> str:
        """The newest leaf below a message (itself when it has no children): where paging to a sibling leads."""
        with self._db.read() as db:
            return messages.leaf_under(db, message_id)

    def trash_message(self, message_id: str, *, subtree: bool) -> None:
        """Move one message (its children move up to its parent) or its whole subtree to the trash."""
        self._db.write(partial(messages.trash, message_id=message_id, subtree=subtree))

    def restore_message(self, message_id: str) -> None:
        """Undo ``trash_message`` exactly."""
        self._db.write(partial(messages.restore, message_id=message_id))

    def add_message(self, message: Message, run: Run | None = None) -> None:
        """Add one finished message, with its finished run if it has one, and show it; raises NotFound for a parent that is gone."""
        self._db.write(partial(messages.add, message=message, run=run))

    # Runs

    def begin_run(self, messages_: Sequence[Message], run: Run) -> None:
        """In one transaction: add the messages (parents first, the last is the empty reply), add its run, show that reply.

        Raises NotFound when the message to answer has been deleted, RefusedInput when an id is taken."""
        self._db.write(partial(messages.begin, messages=tuple(messages_), run=run, owner=self._owner))

    def flush_run(self, run_id: str, content: str, status: str) -> None:
        """Keep the partial text of a running reply; a run that has ended is left alone."""
        self._db.write(partial(runs.flush, run_id=run_id, content=content, status=status))

    def finish_run(self, run: Run, content: str, trace: bytes | None = None) -> None:
        """In one transaction: the final text, the run as it ended, and its trace."""
        self._db.write(partial(runs.finish, run=run, content=content, trace=trace))

    def run(self, run_id: str) -> Run:
        """One run; raises NotFound."""
        with self._db.read() as db:
            return runs.get(db, run_id)

    def trace(self, run_id: str) -> bytes | None:
        """The stored trace of a run, if it has one."""
        with self._db.read() as db:
            return runs.trace(db, run_id)

    def interrupt_orphans(self) -> int:
        """Mark unfinished runs whose process has ended as interrupted, keeping their text; returns how many."""
        if self._owners is None:
            return 0
        return self._db.write(partial(runs.interrupt, alive=self._owners.alive))

    # Presets and settings

    def presets(self) -> Mapping[str, Mapping[str, Json]]:
        """The user's own presets by name."""
        with self._db.read() as db:
            return preferences.presets(db)

    def save_preset(self, name: str, parameters: Mapping[str, Json]) -> None:
        """Add or replace a preset."""
        self._db.write(partial(preferences.save_preset, name=name, parameters=parameters))

    def delete_preset(self, name: str) -> None:
        """Remove a preset; raises NotFound."""
        self._db.write(partial(preferences.delete_preset, name=name))

    def setting(self, key: str) -> Json:
        """A small remembered value; None when never set."""
        with self._db.read() as db:
            return preferences.setting(db, key)

    def save_setting(self, key: str, value: Json) -> None:
        """Remember a small value."""
        self._db.write(partial(preferences.save_setting, name=key, value=value))

    # Out and in

    def export(self, form: ExportFormat, conversation_ids: Sequence[str] | None = None) -> Iterator[str]:
        """The text of an export, piece by piece, all of one moment; without ids everything (Fader JSON: the trash too).

        Raises NotFound, StoreError."""
        with self._db.read() as db:
            yield from exporting.export(db, form, conversation_ids)

    def export_file(
        self, file: Path, conversation_ids: Sequence[str] | None = None, form: ExportFormat | None = None
    ) -> None:
        """Write an export (``form`` defaults to what the file's name ends in); the file is complete or as it was.

        Raises RefusedInput, NotFound, StoreError."""
        exporting.write_file(file, self.export(form or exporting.form_of(file), conversation_ids))

    def import_file(self, file: Path) -> ImportReport:
        """Add a file's conversations, each whole or not at all; never replaces one. Raises NotFound for a missing file."""
        return importing.import_file(file, self)

    def place_of(self, conversation_id: str) -> str | None:
        """Where a conversation is, in words; None when it doesn't exist."""
        try:
            return "here" if self.conversation(conversation_id).trashed_at is None else "in the trash"
        except NotFound:
            return None

    def add(self, whole: Whole) -> None:
        """Keep a whole conversation in one transaction."""
        self.add_conversation(whole.conversation, whole.messages, whole.traces, whole.trash)

    def backup(self, file: Path) -> None:
        """Write a complete copy to a new file, at any time; raises RefusedInput when it exists, StoreError."""
        if file.exists():
            raise RefusedInput(f"{file} exists already; nothing was overwritten. Choose another name.")
        copy_database(self._db.path, file)

    def close(self) -> None:
        """Finish pending writes and close the file. Safe to call twice."""
        if self._backups:
            self._backups.close()
        self._db.close()
        if self._owners:
            self._owners.leave()
