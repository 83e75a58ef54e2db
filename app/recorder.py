"""Writes a run's progress into the store: partial text every half second, the end at once; never slows or stops the run."""

from __future__ import annotations

import logging
from dataclasses import replace
from threading import Event, Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING

from app.conversation import Message, Role, new_id
from app.engine.events import Ended, StatusChanged, TextDelta
from app.errors import StoreError

if TYPE_CHECKING:
    from app.engine.run import LiveRun
    from app.store import ConversationStore

log = logging.getLogger(__name__)
END_RETRIES = 20


class Recorder:
    """Follows live runs, one thread each (only one of them computes; the others wait for their first event)."""

    def __init__(self, store: ConversationStore, flush_seconds: float) -> None:
        self._store = store
        self._flush_seconds = flush_seconds
        self._threads: set[Thread] = set()

    def follow(self, run: LiveRun) -> None:
        """Start recording a run."""
        thread = Thread(target=self._record, args=(run,), name=f"fader-record-{run.id[:8]}", daemon=True)
        self._threads.add(thread)
        thread.start()

    def join(self, timeout: float | None = None) -> None:
        """Wait until every followed run is in the store."""
        for thread in list(self._threads):
            thread.join(timeout)

    def _record(self, run: LiveRun) -> None:
        seen, text, written, due = 0, "", "", 0.0
        try:
            while True:
                wait = max(0.0, due - monotonic()) if text != written else None
                for number, event in run.wait(seen, wait):
                    seen = number
                    if isinstance(event, Ended):
                        self._end(run, event)
                        return
                    if isinstance(event, TextDelta) and event.index == 0:
                        text += event.text
                    elif isinstance(event, StatusChanged):
                        written = "\0"  # a change of status is worth a write of its own
                if text != written and monotonic() >= due:
                    self._flush(run, text)
                    written, due = text, monotonic() + self._flush_seconds
        finally:
            self._threads.discard(current_thread())

    def _flush(self, run: LiveRun, text: str) -> None:
        try:
            self._store.flush_run(run.id, text, run.status.value)
        except StoreError as error:
            log.warning("The reply could not be saved yet: %s", error)

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
            else:
                return

    def _siblings(self, run: LiveRun, ended: Ended) -> None:
        """Further sequences become sibling replies; the first stays on display."""
        if not ended.siblings:
            return
        first = self._store.message(ended.run.message_id)
        for sibling, text in ended.siblings:
            message = Message(new_id(), first.conversation_id, first.parent_id, Role.ASSISTANT, "")
            record = replace(sibling, message_id=message.id)
            self._store.begin_run([message], record)
            self._store.finish_run(record, text)
        self._store.update_conversation(first.conversation_id, shown_leaf=run.request.message_id)
