"""A store in memory and an engine that recites a script, so that the page is tested without a model and without a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Event, Lock, Thread

from app.conversation import (
    Conversation,
    FinishReason,
    Json,
    Message,
    Run,
    RunStatus,
    ShownMessage,
    Stats,
    now,
)
from app.engine.engine import ModelStatus
from app.engine.events import Ended, Progress, StatusChanged, TextDelta
from app.engine.run import LiveRun, RunRequest
from app.errors import NotFound
from app.models.facts import ModelFacts
from app.store import Hit, Page

FACTS = ModelFacts("fake", "Fake 1B", "FakeForCausalLM", 2048, 1000, 2, quantization="nf4")


def pieces(request: RunRequest) -> Iterator[str]:
    """The default script: says back what was said."""
    said = request.messages[-1].content if request.messages else ""
    text = f"You said: {said}"
    yield from (text[i : i + 4] for i in range(0, len(text), 4))


class FakeEngine:
    """Works off its queue in one thread. ``script`` gives the pieces of a reply; a script that raises fails the run."""

    def __init__(self, script: Callable[[RunRequest], Iterator[str]] = pieces, step_s: float = 0.0) -> None:
        self.script = script
        self.step_s = step_s
        self.model = ModelStatus("ready", "fake", FACTS)
        self.requests: list[RunRequest] = []
        self._runs: dict[str, LiveRun] = {}
        self._waiting: list[LiveRun] = []
        self._lock = Lock()
        self._wake = Event()
        self._closed = Event()
        self._thread = Thread(target=self._work, name="fake-engine", daemon=True)
        self._thread.start()

    def submit(self, request: RunRequest) -> LiveRun:
        run = LiveRun(request)
        with self._lock:
            self.requests.append(request)
            self._runs[run.id] = run
            self._waiting.append(run)
        self._wake.set()
        return run

    def live(self, run_id: str) -> LiveRun | None:
        return self._runs.get(run_id)

    def queue(self) -> tuple[LiveRun, ...]:
        with self._lock:
            return tuple(self._waiting)

    def load(self, name: str) -> None:
        self.model = replace(self.model, name=name)

    def unload(self) -> None:
        self.model = ModelStatus("none")

    def status(self) -> ModelStatus:
        return self.model

    def close(self) -> None:
        self._closed.set()
        self._wake.set()
        self._thread.join(5)

    def _work(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._waiting and not self._closed.is_set():
                self._recite(self._waiting[0])
                with self._lock:
                    self._waiting.pop(0)

    def _recite(self, run: LiveRun) -> None:
        said: list[str] = []
        run.append(StatusChanged(RunStatus.PREFILL, "Reading the prompt"))
        run.append(Progress("prompt", 1, 1))
        run.append(StatusChanged(RunStatus.GENERATING))
        reason, error = FinishReason.EOS, None
        try:
            if run.request.prefix_text:
                self._say(run, said, run.request.prefix_text)
            for piece in self.script(run.request):
                if run.cancelled.is_set() or self._closed.is_set():
                    reason = FinishReason.STOPPED
                    break
                self._say(run, said, piece)
                run.cancelled.wait(self.step_s)
        except Exception as failure:  # a script that raises is a model that raises
            reason, error = FinishReason.ERROR, str(failure)
        run.append(_ended(run, said, reason, error))

    def _say(self, run: LiveRun, said: list[str], piece: str) -> None:
        kind = "answer"
        if piece.startswith("(thinking)"):
            kind, piece = "thinking", piece.removeprefix("(thinking)")
        said.append(piece)
        run.append(TextDelta(piece, kind))  # type: ignore[arg-type]  # one of the two


def _ended(run: LiveRun, said: Sequence[str], reason: FinishReason, error: str | None) -> Ended:
    status = {FinishReason.STOPPED: RunStatus.STOPPED, FinishReason.ERROR: RunStatus.FAILED}.get(reason, RunStatus.DONE)
    stats = Stats(prompt_tokens=12, new_tokens=len(said), ttft_s=0.12, tokens_per_s=34.5, reused_tokens=8)
    record = Run(
        run.id,
        run.request.message_id,
        status,
        reason,
        requested=run.request.requested,
        effective=run.request.requested,
        seed=42,
        stats=stats,
        error=error,
        finished_at=now(),
    )
    return Ended(record, "".join(said))


class MemoryStore:
    """``ConversationStore`` in dictionaries; search is a plain substring."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._conversations: dict[str, Conversation] = {}
        self._messages: dict[str, Message] = {}
        self._settings: dict[str, Json] = {}
        self._undo: dict[str, dict[str, Message]] = {}

    def create_conversation(self, conversation: Conversation) -> None:
        self._conversations[conversation.id] = conversation

    def conversation(self, conversation_id: str) -> Conversation:
        try:
            return self._conversations[conversation_id]
        except KeyError:
            message = "There is no such conversation."
            raise NotFound(message) from None

    def conversations(self, query: str = "", *, trashed: bool = False, offset: int = 0, limit: int = 100) -> Page:
        found = [
            c
            for c in self._conversations.values()
            if (c.trashed_at is not None) == trashed and query.lower() in c.title.lower()
        ]
        found.sort(key=lambda c: (c.pinned, c.updated_at), reverse=True)
        return Page(tuple(Hit(c) for c in found[offset : offset + limit]), len(found) > offset + limit)

    def update_conversation(self, conversation_id: str, **changes: Json) -> Conversation:
        with self._lock:
            old = self.conversation(conversation_id)
            new = replace(old, **{k: v for k, v in changes.items() if v is not None})
            self._conversations[conversation_id] = new
            return new

    def trash(self, conversation_ids: Sequence[str]) -> None:
        for key in conversation_ids:
            self._conversations[key] = replace(self.conversation(key), trashed_at=now())

    def restore(self, conversation_ids: Sequence[str]) -> None:
        for key in conversation_ids:
            self._conversations[key] = replace(self.conversation(key), trashed_at=None)

    def purge(self, conversation_ids: Sequence[str]) -> None:
        for key in conversation_ids:
            if self.conversation(key).trashed_at:
                del self._conversations[key]

    def message(self, message_id: str) -> Message:
        try:
            return self._messages[message_id]
        except KeyError:
            message = "There is no such message."
            raise NotFound(message) from None

    def _children(self, conversation_id: str, parent: str | None) -> list[Message]:
        return [
            m
            for m in list(self._messages.values())
            if m.conversation_id == conversation_id and m.parent_id == parent and m.trashed_at is None
        ]

    def branch(self, conversation_id: str, leaf_id: str | None = None) -> tuple[ShownMessage, ...]:
        leaf = leaf_id or self.conversation(conversation_id).shown_leaf
        path: list[ShownMessage] = []
        message = self._messages.get(leaf or "")
        while message is not None:
            siblings = tuple(m.id for m in self._children(conversation_id, message.parent_id))
            if message.trashed_at is None:
                path.append(ShownMessage(message, siblings))
            message = self._messages.get(message.parent_id or "")
        return tuple(reversed(path))

    def leaf_under(self, message_id: str) -> str:
        message = self.message(message_id)
        while children := self._children(message.conversation_id, message.id):
            message = children[-1]
        return message.id

    def trash_message(self, message_id: str, *, subtree: bool) -> None:
        message = self.message(message_id)
        kept = dict(self._messages)
        self._messages[message_id] = replace(message, trashed_at=now())
        if not subtree:
            for child in self._children(message.conversation_id, message_id):
                self._messages[child.id] = replace(child, parent_id=message.parent_id)
        self._undo[message_id] = kept
        shown = self.conversation(message.conversation_id).shown_leaf
        if subtree or shown == message_id:
            self.update_conversation(message.conversation_id, shown_leaf=message.parent_id or "")

    def restore_message(self, message_id: str) -> None:
        self._messages.update(self._undo.pop(message_id))
        message = self.message(message_id)
        self.update_conversation(message.conversation_id, shown_leaf=self.leaf_under(message_id))

    def add_message(self, message: Message, run: Run | None = None) -> None:
        self._messages[message.id] = replace(message, run=run)
        self.update_conversation(message.conversation_id, shown_leaf=message.id)

    def begin_run(self, messages: Sequence[Message], run: Run) -> None:
        for message in messages:
            self._messages[message.id] = message
        reply = messages[-1]
        self._messages[reply.id] = replace(reply, run=run)
        self.update_conversation(reply.conversation_id, shown_leaf=reply.id, updated_at=now())

    def flush_run(self, run_id: str, content: str, status: str) -> None:
        message = self._of_run(run_id)
        assert message.run
        self._messages[message.id] = replace(message, content=content, run=replace(message.run, status=RunStatus(status)))

    def finish_run(self, run: Run, content: str, trace: bytes | None = None) -> None:
        self._messages[run.message_id] = replace(self._messages[run.message_id], content=content, run=run)

    def _of_run(self, run_id: str) -> Message:
        for message in list(self._messages.values()):
            if message.run and message.run.id == run_id:
                return message
        text = "There is no such run."
        raise NotFound(text)

    def run(self, run_id: str) -> Run:
        run = self._of_run(run_id).run
        assert run
        return run

    def trace(self, run_id: str) -> bytes | None:
        return None

    def interrupt_orphans(self) -> int:
        return 0

    def presets(self) -> Mapping[str, Mapping[str, Json]]:
        return {}

    def save_preset(self, name: str, parameters: Mapping[str, Json]) -> None: ...
    def delete_preset(self, name: str) -> None: ...

    def setting(self, key: str) -> Json:
        return self._settings.get(key)

    def save_setting(self, key: str, value: Json) -> None:
        self._settings[key] = value

    def close(self) -> None: ...
