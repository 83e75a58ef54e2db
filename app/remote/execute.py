"""One run on a server elsewhere, from its request to its end; the counterpart of ``app.engine.execute``. Runs in the engine's thread."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.conversation import FinishReason, Run, RunStatus, new_id, now
from app.engine.events import Ended, Note, Outcome, StatusChanged
from app.engine.outcome import explain
from app.engine.sampling import SEED_LIMIT
from app.errors import Cancelled, FaderError, RemoteFailed
from app.parameters.resolve import resolve
from app.remote import failures
from app.remote.client import TimeUp, client_for, key_for, talk
from app.remote.reply import Reply
from app.remote.request import body_for, check_continues, turns_of, without_refused
from app.remote.stream import chunks
from app.remote.tokens import trace_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from app.conversation import Json
    from app.engine.run import LiveRun
    from app.remote.connecting import RemoteModel
    from app.remote.request import Body

TRIES = 4
"""A request is sent again without what the server says it doesn't take."""


def execute_remote(run: LiveRun, model: RemoteModel) -> None:
    """Compute a run elsewhere; whatever happens, its log gets an end."""
    execution = RemoteExecution(run, model)
    try:
        end = execution.compute()
    except Cancelled:
        end = execution.end(RunStatus.STOPPED, FinishReason.STOPPED)
    except FaderError as error:
        end = execution.end(RunStatus.FAILED, FinishReason.ERROR, str(error))
    except Exception as error:  # noqa: BLE001  (whatever a server sends ends its run and nothing else)
        end = execution.end(RunStatus.FAILED, FinishReason.ERROR, str(explain(error)))
    run.append(end)


@dataclass
class RemoteExecution:
    """A run under way, and its record as far as it is known."""

    run: LiveRun
    model: RemoteModel
    reply: Reply | None = None
    record: Run = field(init=False)

    def __post_init__(self) -> None:
        """Begin the record with what was asked of which model."""
        request = self.run.request
        fingerprint = dict(self.model.facts.fingerprint)
        self.record = Run(
            request.run_id, request.message_id, requested=dict(request.requested), model_fingerprint=fingerprint
        )

    def compute(self) -> Ended:
        """The whole run. Raises Cancelled, FaderError, or what a server's nonsense raises."""
        self.run.append(StatusChanged(RunStatus.PREFILL))
        values = self._resolve()
        body = self._body(values)
        self.reply = Reply(
            self.run,
            int(values["num_return_sequences"] or 1),
            values["stop_strings"] or (),
            self.run.request.prefix_text,
        )
        try:
            talk(self._talk(body), self.run.cancelled, values["max_time"])
        except TimeUp:
            return self.end(RunStatus.DONE, FinishReason.TIME)
        return self.end(RunStatus.DONE)

    def _resolve(self) -> Mapping[str, Json]:
        request = self.run.request
        resolution = resolve(request.requested, self.model.facts, sources=request.sources)
        seed = resolution.values["seed"]
        values = {**resolution.values, "seed": secrets.randbelow(SEED_LIMIT) if seed is None else int(seed)}
        self.record = replace(
            self.record, seed=values["seed"], effective=dict(values), explained=resolution.explained_json()
        )
        for note in resolution.notes:
            self._note(note)
        return values

    def _body(self, values: Mapping[str, Json]) -> Body:
        request, remote = self.run.request, self.model.facts.remote
        assert remote is not None  # noqa: S101  (whom this is for)
        if request.prefix_text:
            check_continues(self.model.facts)
        messages = request.history() if request.history else request.messages
        turns = turns_of(messages, request.system_prompt)
        return body_for(values, remote, self.model.address.model, turns, request.prefix_text)

    def _note(self, note: str) -> None:
        if note and note not in self.record.notes:
            self.record = replace(self.record, notes=(*self.record.notes, note))
            self.run.append(Note(note))

    # -- the conversation with the server ----------------------------------------------------------------------------------

    async def _talk(self, body: Body) -> None:
        import httpx

        assert self.reply is not None  # noqa: S101
        address = self.model.address
        async with client_for(address, self.model.settings) as client:
            for _ in range(TRIES):
                try:
                    async with client.stream("POST", f"{address.base}/chat/completions", json=body) as response:
                        if (other := await self._other(response, body)) is None:
                            await self._read(response)
                            return
                        body = other
                except (httpx.HTTPError, ValueError) as error:
                    raise failures.of_exception(error, address, begun=self.reply.begun) from error

    async def _other(self, response: httpx.Response, body: Body) -> Body | None:
        """The request without what this server refuses of it; None when it has accepted it. Raises RemoteFailed."""
        if response.is_success:
            return None
        text = (await response.aread()).decode(errors="replace")
        found = None
        if response.status_code in (400, 422):
            found = without_refused(body, text, self.run.request.requested)
        if found is None:
            keyed = key_for(self.model.address, self.model.settings) is not None
            raise failures.of_status(response.status_code, text, self.model.address, keyed=keyed)
        self._note(found[1])
        return found[0]

    async def _read(self, response: httpx.Response) -> None:
        assert self.reply is not None  # noqa: S101
        async for chunk in chunks(response):
            if "error" in chunk:
                raise failures.of_stream(chunk, self.model.address)
            self.reply.take(chunk)
            if any(strand.stops.hit for strand in self.reply.strands) and self.reply.ended:
                return  # leaving closes the connection, and the server stops
        if not self.reply.ended:
            raise RemoteFailed(
                f"{self.model.address.host} ended the reply before it was complete; what had come is kept."
            )

    # -- the end -----------------------------------------------------------------------------------------------------------

    def end(self, status: RunStatus, reason: FinishReason | None = None, error: str | None = None) -> Ended:
        """The run as it ended, with all of it that had come. Without a ``reason`` each sequence has its own."""
        ended = replace(self.record, status=status, finish_reason=reason, error=error, finished_at=now())
        if self.reply is None:
            return Ended(ended, self.run.request.prefix_text)
        self.reply.close()
        self._tell_endings()
        first, *others = [
            self._outcome(replace(ended, notes=self.record.notes), index) for index in range(len(self.reply.strands))
        ]
        return Ended(first.run, first.text, first.trace, tuple(others) if status is RunStatus.DONE else ())

    def _tell_endings(self) -> None:
        assert self.reply is not None  # noqa: S101
        for finish in sorted({strand.finish or "" for strand in self.reply.strands} - {"", "stop", "length"}):
            self._note(f"The server ended the reply: {finish.replace('_', ' ')}.")

    def _outcome(self, ended: Run, index: int) -> Outcome:
        assert self.reply is not None  # noqa: S101
        strand = self.reply.strands[index]
        trace = trace_of(_shown(strand.entries))
        record = replace(
            ended,
            id=ended.id if index == 0 else new_id(),
            finish_reason=ended.finish_reason or strand.reason(self.run),
            stats=self.reply.stats(index),
        )
        return Outcome(record, strand.text, trace.pack() if trace else None)


def _shown(entries: Sequence[Mapping[str, Json]]) -> Sequence[Mapping[str, Json]]:
    """Entries of tokens; a server that leaves the probabilities out gives tokens without any."""
    return [entry for entry in entries if entry.get("logprob") is not None and "token" in entry]
