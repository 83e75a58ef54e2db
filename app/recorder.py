"""Writes a run's progress into the store: partial text every half second, the end at once; never slows or stops the run."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

from app.conversation import Message, Role, new_id
from app.engine.events import Ended, StatusChanged, TextDelta
from app.errors import NotFound, StoreError

if TYPE_CHECKING:
    from app.engine.run import LiveRun
    from app.store import ConversationStore

log = logging.getLogger(__name__)
END_RETRIES = 20


@dataclass(eq=False)
class Followed:
    """A run being recorded; the flags say that partial text, and that the end, is in the store."""

    run: LiveRun
    flushed: Event = field(default_factory=Event)
    kept: Event = field(default_factory=Event)
    thread: Thread | None = None


class Recorder:
    """Follows live runs, one thread each (only one of them computes; the others wait for their first event)."""

    def __init__(self, store: ConversationStore, flush_seconds: float) -> None:
        self._store = store
        self._flush_seconds = flush_seconds
        self._followed: dict[str, Followed] = {}

    def follow(self, run: LiveRun) -> None:
        """Start recording a run."""
        followed = Followed(run)
        followed.thread = Thread(target=self._record, args=(followed,), name=f"fader-record-{run.id[:8]}", daemon=True)
        self._followed[run.id] = followed
        followed.thread.start()

    def wait(self, run_id: str, timeout: float | None = None, *, end: bool = True) -> bool:
        """Wait until the run's end (or, ``end`` False, some of its text) is in the store. True for runs not followed here."""
        followed = self._followed.get(run_id)
        return followed is None or (followed.kept if end else followed.flushed).wait(timeout)

    def join(self) -> None:
        """Wait until every followed run is in the store."""
        for followed in list(self._followed.values()):
            if followed.thread:
                followed.thread.join()

    def _record(self, followed: Followed) -> None:
        try:
            self._end(followed.run, self._flush_until_end(followed))
        finally:
            followed.flushed.set()
            followed.kept.set()
            self._followed.pop(followed.run.id, None)

    def _flush_until_end(self, followed: Followed) -> Ended:
        """Keep partial text at least every ``flush_seconds``, and every change of status."""
        run, seen, text, dirty, due = followed.run, 0, "", False, 0.0
        while True:
            for number, event in run.wait(seen, max(0.0, due - monotonic()) if dirty else None):
                seen = number
                if isinstance(event, Ended):
                    return event
                if isinstance(event, TextDelta) and event.index == 0:
                    text, dirty = text + event.text, True
                dirty = dirty or isinstance(event, StatusChanged)
            if dirty and monotonic() >= due:
                self._flush(run, text or run.request.prefix_text)
                dirty, due = False, monotonic() + self._flush_seconds
                if text:
                    followed.flushed.set()

    def _flush(self, run: LiveRun, text: str) -> None:
        try:
            self._store.flush_run(run.id, text, run.status.value)
        except StoreError as error:
            log.warning("The reply could not be saved yet: %s", error)
        except NotFound:
            return  # its conversation has been destroyed meanwhile

    def _end(self, run: LiveRun, ended: Ended) -> None:
        """Keep the end. When the disk is full or the file locked, try again for a while: the text is still in memory."""
        pause = Event()
        for attempt in range(END_RETRIES):
            try:
                self._store.finish_run(ended.run, ended.text, ended.trace)
                self._siblings(run, ended)
            except StoreError as error:
                log.warning("The reply could not be saved (attempt %d): %s", attempt + 1, error)
                pause.wait(min(0.5 * 2**attempt, 30.0))
            except NotFound:
                return  # its conversation has been destroyed meanwhile: there is nothing to keep
            else:
                return

    def _siblings(self, run: LiveRun, ended: Ended) -> None:
        """Further sequences become sibling replies; the first stays on display."""
        if not ended.siblings:
            return
        first = self._store.message(ended.run.message_id)
        for sibling in ended.siblings:
            message = Message(new_id(), first.conversation_id, first.parent_id, Role.ASSISTANT, "")
            record = replace(sibling.run, message_id=message.id)
            self._store.begin_run([message], record)
            self._store.finish_run(record, sibling.text, sibling.trace)
        self._store.update_conversation(first.conversation_id, shown_leaf=run.request.message_id)
