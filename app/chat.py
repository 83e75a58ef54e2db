"""The use cases: send, edit, regenerate, continue, branch, stop. The only writer of conversations.

Every method returns as soon as the user's words are safely stored and the run is queued; the reply then comes through
``live(run_id)``, whoever watches. Also the public Python API (docs/api.md).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.comparing import turns
from app.conversation import EMPTY, Conversation, Json, Message, Role, Run, RunStatus, new_id, now
from app.engine.held import no_desk
from app.engine.run import LiveRun, RunRequest
from app.errors import NotFound, RefusedInput, RunFailed, StoreError
from app.insight.compare import Grid
from app.insight.recorded import Recorded
from app.insight.replay import Replay, alone_claim, compare, request_for
from app.parameters.presets import Preset, shipped
from app.parameters.resolve import resolve
from app.parameters.validate import validate
from app.recorder import Recorder
from app.remote.request import check_continues
from app.titles import suggest_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.batch.alone import AloneCheck
    from app.engine.batch.claims import Alone
    from app.engine.desk import Preview
    from app.engine.engine import Engine
    from app.insight.compare import Cell
    from app.settings import Settings
    from app.store import ConversationStore

log = logging.getLogger(__name__)
ALONE = "Computed beside other replies. Alone, the same seed takes another token at token {token}; of all tokens {share:.1%} are the same."


@dataclass(frozen=True, slots=True)
class Started:
    """A reply under way: its conversation, the (empty) reply message, and the live run."""

    conversation: Conversation
    reply: Message
    run: LiveRun


@dataclass(frozen=True, slots=True)
class Compared:
    """A cell under way. ``apart``: why it is computed by itself, None where it goes side by side with the others."""

    cell: Cell
    started: Started
    apart: str | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a reply starts with: typed text, or the tokens of another reply to go on from."""

    text: str = ""
    ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()


class Chat:
    """Use cases over a store and an engine. All methods may be called from any thread."""

    def __init__(self, store: ConversationStore, engine: Engine, settings: Settings) -> None:
        self.store = store
        self.engine = engine
        self.settings = settings
        self._recorder = Recorder(store, settings.flush_seconds)

    def send(
        self,
        text: str,
        *,
        conversation_id: str | None = None,
        parent_id: str | None = None,
        requested: Mapping[str, Json] = EMPTY,
        preset: str | None = None,
        system_prompt: str | None = None,
        prefix: str = "",
        model: str | None = None,
        inherit: bool = False,
    ) -> Started:
        """Store a user message below ``parent_id`` (default: the shown leaf) and start the reply; without a conversation a new
        one is made, titled from the text. ``requested`` holds only the parameters that are set, ``preset`` is the name of the
        one they began with; ``prefix`` is typed text that the reply starts with. ``model``: load this one first if it isn't the one
        in memory. ``inherit``: what the conversation has set applies where ``requested`` says nothing.

        Raises RefusedInput for a blank or over-long text, BadParameter, NotFound, StoreError.
        """
        self._check(text)
        checked, sources = self._with_kept(requested, conversation_id if inherit else None)
        shown_model = model or self.engine.status().name
        conversation = self._conversation(conversation_id, text, checked, preset, system_prompt, shown_model)
        parent = parent_id or self._leaf(conversation)
        question = Message(new_id(), conversation.id, parent, Role.USER, text)
        return self._start(conversation, [question], checked, Beginning(prefix), model=model, sources=sources)

    def edit(self, message_id: str, text: str, *, requested: Mapping[str, Json] = EMPTY) -> Started:
        """Make a sibling of a user message with other text and start its reply. Raises as ``send`` does."""
        self._check(text)
        old = self._message(message_id, Role.USER)
        question = Message(new_id(), old.conversation_id, old.parent_id, Role.USER, text)
        return self._start(self.store.conversation(old.conversation_id), [question], self._checked(requested))

    def regenerate(self, message_id: str, *, requested: Mapping[str, Json] = EMPTY) -> Started:
        """Start another reply beside an assistant message, or below a user message."""
        message = self.store.message(message_id)
        parent = message_id if message.role is Role.USER else message.parent_id
        return self._start(
            self.store.conversation(message.conversation_id), [], self._checked(requested), parent_id=parent
        )

    def continue_reply(self, message_id: str, *, requested: Mapping[str, Json] = EMPTY) -> Started:
        """Start a sibling reply that begins with all tokens of this one and goes on.

        An end token at the end is taken off, so that a reply that ended by itself can go on too.
        """
        old = self._message(message_id, Role.ASSISTANT)
        conversation = self.store.conversation(old.conversation_id)
        run = old.run
        if run is None or not run.output_ids:
            beginning = Beginning(old.content)
        else:
            ids = run.output_ids[:-1] if run.finish_reason == "eos" else run.output_ids
            beginning = Beginning(old.content, ids, run.prompt_ids)
        return self._start(conversation, [], self._checked(requested), beginning, parent_id=old.parent_id)

    def branch_token(
        self, message_id: str, position: int, token: int | str, *, requested: Mapping[str, Json] | None = None
    ) -> Started:
        """Start a sibling reply that keeps the output tokens before ``position`` (from 0), takes another token (an id, or typed
        text) there and goes on, with the same parameters and seed unless others are given.

        Raises RefusedInput for a reply without recorded tokens or a position outside of it, NoModel, BadParameter.
        """
        old = self._message(message_id, Role.ASSISTANT)
        desk, run = self.engine.desk, old.run
        if desk is None:
            raise no_desk(self.engine.status())
        if run is None or not run.prompt_ids or not 0 <= position <= len(run.output_ids):
            sentence = "This reply has no recorded token at that place."
            raise RefusedInput(sentence)
        new = [token] if isinstance(token, int) else [piece.id for piece in desk.tokenize(token, literal=True)]
        ids = (*run.output_ids[:position], *new)
        beginning = Beginning(desk.shown(ids), ids, run.prompt_ids)
        asked = {**run.requested, "seed": run.seed} if requested is None else requested
        wanted = {name: value for name, value in asked.items() if name != "num_return_sequences"}
        conversation = self.store.conversation(old.conversation_id)
        return self._start(conversation, [], self._checked(wanted), beginning, parent_id=old.parent_id)

    def compare(self, message_id: str, sweeps: Mapping[str, Sequence[Json]]) -> tuple[Compared, ...]:
        """Start a sibling of a finished reply for every combination of the swept values (of parameters, ``preset`` and ``model``), with
        its prompt and seed; those that can be are computed in one batch, and the reply stays on display. Other models are loaded in
        turn, and the present one comes back afterwards.

        Raises RefusedInput, BadParameter and NotFound before anything is started (see ``Grid.cells``), NoModel, StoreError.
        """
        old = self._message(message_id, Role.ASSISTANT)
        if old.run is None or not old.run.status.final:
            raise RefusedInput("Only a finished reply that a model wrote here can be compared.")
        own = {name: Preset(name, "", parameters) for name, parameters in self.store.presets().items()}
        presets = own | {preset.name: preset for preset in shipped()}
        cells = Grid(Recorded(old.run, None), self.engine.status().facts, presets).cells(sweeps)
        shown = self._leaf(self.store.conversation(old.conversation_id))
        begun: list[tuple[Message, RunRequest]] = []
        try:
            for cell in cells:
                begun.append(self._begin_cell(old, old.run, cell))  # noqa: PERF401  (what has begun is kept when the next one can't)
        finally:
            compared = self._queue_cells(begun, cells)
            if shown:
                self.store.update_conversation(old.conversation_id, shown_leaf=shown)
        return compared

    def check_alone(self, run_ids: Sequence[str]) -> AloneCheck:
        """Hold finished replies that were computed side by side against single runs, whenever nobody else waits; where one parts
        from what it would be alone, that is noted with it. Raises NotFound."""
        runs = [self.store.run(run_id) for run_id in run_ids]
        return self.engine.check_alone({run.id: alone_claim(run) for run in runs if run.output_ids}, self._keep_alone)

    def branch(self, message_id: str) -> Conversation:
        """Copy the path up to a message into a new conversation and return it."""
        end = self.store.message(message_id)
        source = self.store.conversation(end.conversation_id)
        copy = replace(
            source, id=new_id(), title=f"{source.title} (branch)", shown_leaf=None, pinned=False, updated_at=now()
        )
        twins: list[Message] = []
        for shown in self.store.branch(source.id, message_id):
            parent = twins[-1].id if twins else None
            twins.append(_twin(shown.message, copy.id, parent))
        self.store.add_conversation(copy, twins)
        return self.store.conversation(copy.id)

    def preview(
        self,
        text: str,
        *,
        conversation_id: str | None = None,
        parent_id: str | None = None,
        requested: Mapping[str, Json] = EMPTY,
        system_prompt: str | None = None,
        prefix: str = "",
    ) -> Preview:
        """The exact prompt that sending ``text`` now would give, as text and tokens, and how it fills the context.

        Raises NoModel while none is loaded, RefusedInput when it does not fit, BadParameter, NotFound.
        """
        desk = self.engine.desk
        if desk is None:
            raise no_desk(self.engine.status())
        conversation = self.store.conversation(conversation_id) if conversation_id else Conversation()
        parent = parent_id or (self._leaf(conversation) if conversation_id else None)
        path = self.store.branch(conversation.id, parent) if parent else ()
        messages = [shown.message for shown in path]
        if text.strip() or not messages:
            messages.append(Message(new_id(), conversation.id, parent, Role.USER, text))
        system = conversation.system_prompt if system_prompt is None else system_prompt
        return desk.preview(messages, system_prompt=system, prefix=prefix, requested=self._checked(requested))

    def replay(self, run_id: str, *, model: str | None = None) -> LiveRun:
        """Run a stored reply again, beside every conversation: nothing is stored. ``check_replay`` tells what came of it.

        Raises NotFound, and RefusedInput for a run that never reached the model.
        """
        run = self.store.run(run_id)
        reply = self.store.message(run.message_id)
        above = self.store.branch(reply.conversation_id, reply.parent_id) if reply.parent_id else ()
        messages = tuple(
            shown.message for shown in above
        )  # the prompt is recorded, the negative prompt's is made from these
        return self.engine.submit(replace(request_for(run, model), messages=messages))

    def check_replay(self, run_id: str, replayed: LiveRun, timeout: float | None = None) -> Replay:
        """Wait for a replay's end and hold it against the stored run. Raises RunFailed, TimeoutError."""
        ended = replayed.result(timeout)
        if ended.run.status is RunStatus.FAILED:
            raise RunFailed(ended.run.error or "The replay failed.")
        return compare(self.store.run(run_id), self.store.trace(run_id), ended)

    def stop(self, run_id: str) -> bool:
        """End a run's computation; False when no such run is alive."""
        run = self.engine.live(run_id)
        if run is None or run.ended:
            return False
        run.cancel()
        return True

    def live(self, run_id: str) -> LiveRun | None:
        """A run that is alive or ended a short while ago, for reading its events."""
        return self.engine.live(run_id)

    def wait_until_kept(self, run_id: str, timeout: float | None = 60) -> bool:
        """Wait until a run's end is in the store; at once for runs that are not alive here."""
        return self._recorder.wait(run_id, timeout)

    def wait_until_flushed(self, run_id: str, timeout: float | None = 60) -> bool:
        """Wait until some of a run's text is in the store."""
        return self._recorder.wait(run_id, timeout, end=False)

    def close(self) -> None:
        """Stop the engine, wait until everything is stored, close the store."""
        self.engine.close()
        self._recorder.join()
        self.store.close()

    # -- inside ------------------------------------------------------------------------------------------------------------

    def _check(self, text: str) -> None:
        if not text.strip():
            sentence = "The message is empty."
            raise RefusedInput(sentence)
        limit = self.settings.max_message_chars
        if len(text) > limit:
            sentence = (
                f"The message has {len(text):,} characters; the limit is {limit:,}. Shorten it or send it in parts."
            )
            raise RefusedInput(sentence)

    def _checked(self, requested: Mapping[str, Json]) -> dict[str, Json]:
        """Exact values. Raises BadParameter for what is out of range or can't be done at all by this model on this machine."""
        facts = self.engine.status().facts
        checked = validate(requested, facts)
        resolve(checked, facts)
        return checked

    def _with_kept(
        self, requested: Mapping[str, Json], conversation_id: str | None
    ) -> tuple[dict[str, Json], Mapping[str, str]]:
        """What was asked for, completed by what a conversation keeps; and where the latter comes from."""
        checked = self._checked(requested)
        if conversation_id is None:
            return checked, EMPTY
        kept = self.store.conversation(conversation_id).parameters
        return {**kept, **checked}, {name: "conversation" for name in kept if name not in checked}

    def _from_preset(self, conversation: Conversation, requested: Mapping[str, Json]) -> dict[str, str]:
        """Which of the values are those of the preset that the conversation's settings began with."""
        own = Preset(conversation.preset, "", self.store.presets().get(conversation.preset, EMPTY))
        preset = next((preset for preset in shipped() if preset.name == conversation.preset), own)
        return dict.fromkeys(preset.giving(requested), "preset")

    def _settled(self, conversation_id: str, end: str | None) -> list[Message]:
        """The branch down to ``end``, once every reply on it that was under way is in the store."""
        if end is None:
            return []
        for shown in self.store.branch(conversation_id, end):
            if shown.message.run and not shown.message.run.status.final:
                self.wait_until_kept(shown.message.run.id)
        return [shown.message for shown in self.store.branch(conversation_id, end)]

    def _message(self, message_id: str, role: Role) -> Message:
        message = self.store.message(message_id)
        if message.role is not role:
            sentence = f"Only a message of the {role} can be used for this."
            raise RefusedInput(sentence)
        return message

    def _conversation(
        self,
        conversation_id: str | None,
        text: str,
        parameters: Mapping[str, Json],
        preset: str | None,
        system_prompt: str | None,
        model: str | None,
    ) -> Conversation:
        if conversation_id is None:
            made = Conversation(
                title=suggest_title(text),
                system_prompt=system_prompt or "",
                parameters=parameters,
                preset=preset or "",
                model=model,
            )
            self.store.create_conversation(made)
            return made
        old = self.store.conversation(conversation_id)
        if old.trashed_at is not None:
            sentence = "This conversation is in the trash. Restore it to go on."
            raise RefusedInput(sentence)
        return self.store.update_conversation(
            conversation_id,
            title=None if old.title else suggest_title(text),
            system_prompt=system_prompt,
            parameters=parameters,
            preset=preset,
            model=model,
        )

    def _leaf(self, conversation: Conversation) -> str | None:
        shown = self.store.branch(conversation.id)
        return shown[-1].message.id if shown else None

    def _start(
        self,
        conversation: Conversation,
        new: list[Message],
        requested: Mapping[str, Json],
        beginning: Beginning | None = None,
        *,
        parent_id: str | None = None,
        model: str | None = None,
        sources: Mapping[str, str] = EMPTY,
    ) -> Started:
        """Store the new messages and an empty reply, and queue its run. Raises RefusedInput as ``_begin`` does."""
        reply, request = self._begin(
            conversation, new, requested, beginning, parent_id=parent_id, model=model, sources=sources
        )
        return self._follow(reply, self.engine.submit(request))

    def _follow(self, reply: Message, live: LiveRun) -> Started:
        self._recorder.follow(live)
        return Started(self.store.conversation(reply.conversation_id), reply, live)

    def _begin(
        self,
        conversation: Conversation,
        new: list[Message],
        requested: Mapping[str, Json],
        beginning: Beginning | None = None,
        *,
        parent_id: str | None = None,
        model: str | None = None,
        sources: Mapping[str, str] = EMPTY,
    ) -> tuple[Message, RunRequest]:
        """Store the new messages, an empty reply and its run in one transaction; the request of the run is still to be queued.

        Raises RefusedInput for a beginning that a server can't go on with.
        """
        beginning = beginning or Beginning()
        if beginning.text:
            check_continues(self.engine.status().facts)
        parent = new[-1].id if new else parent_id
        above = new[0].parent_id if new else parent_id
        if parent is None:
            sentence = "There is no message to reply to."
            raise NotFound(sentence)
        reply = Message(new_id(), conversation.id, parent, Role.ASSISTANT, beginning.text)
        run = Run(new_id(), reply.id, requested=requested)
        self.store.begin_run([*new, reply], run)
        request = RunRequest(
            run.id,
            conversation.id,
            reply.id,
            messages=tuple(new),
            history=lambda: (*self._settled(conversation.id, above), *new),
            system_prompt=conversation.system_prompt,
            requested=requested,
            sources={**self._from_preset(conversation, requested), **sources},
            prefix_text=beginning.text,
            prefix_ids=beginning.ids,
            prompt_ids=beginning.prompt_ids,
            model=model,
        )
        return replace(reply, run=run), request

    def _begin_cell(self, old: Message, run: Run, cell: Cell) -> tuple[Message, RunRequest]:
        """A cell's reply begins with what the compared one took over: on its own model with the same tokens, on another one as text."""
        desk, ids = self.engine.desk, run.output_ids[: len(run.output_ids) - run.stats.new_tokens]
        if ids and desk is None:
            raise no_desk(self.engine.status())
        text = desk.shown(ids) if ids and desk else ""
        own = cell.model in (None, run.model_fingerprint.get("name"))
        beginning = Beginning(text, ids, run.prompt_ids) if own else Beginning(text)
        conversation = self.store.conversation(old.conversation_id)
        parent, model, sources = old.parent_id, cell.model, cell.sources
        return self._begin(conversation, [], cell.requested, beginning, parent_id=parent, model=model, sources=sources)

    def _queue_cells(self, begun: Sequence[tuple[Message, RunRequest]], cells: Sequence[Cell]) -> tuple[Compared, ...]:
        """Queue what a comparison has begun, and put the present model back behind it."""
        known = {request.run_id: (reply, cell) for (reply, request), cell in zip(begun, cells, strict=False)}
        status = self.engine.status()
        compared: dict[str, Compared] = {}
        for turn in turns([request for _, request in begun], status, exact=self.engine.exact_together):
            for live in self.engine.submit_together(turn.requests):
                reply, cell = known[live.id]
                compared[live.id] = Compared(cell, self._follow(reply, live), turn.apart)
        if status.name and any(request.model not in (None, status.name) for _, request in begun):
            self.engine.put_back(status.name, status.facts.draft_model if status.facts else None)
        return tuple(compared[request.run_id] for _, request in begun)

    def _keep_alone(self, run_id: str, found: Alone) -> None:
        """Note with a reply where it parts from what it would be alone."""
        if found.parts_at is None:
            return
        try:
            run = self.store.run(run_id)
            note = ALONE.format(token=len(run.output_ids) - found.tokens + found.parts_at + 1, share=found.share)
            content = self.store.message(run.message_id).content
            self.store.finish_run(replace(run, notes=(*run.notes, note)), content)
        except (NotFound, StoreError) as error:  # deleted meanwhile, or no room on the disk: only the note is lost
            log.warning("A note could not be kept: %s", error)


def _twin(message: Message, conversation_id: str, parent_id: str | None) -> Message:
    """A copy of a message for another conversation, its run included."""
    own = new_id()
    run = None if message.run is None else replace(message.run, id=new_id(), message_id=own)
    return replace(message, id=own, conversation_id=conversation_id, parent_id=parent_id, run=run)
