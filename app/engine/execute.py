"""One run from its request to its end: prompt, parameters, generate, outcome. Runs in the engine's thread."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from app.conversation import FinishReason, Run, RunStatus, Stats
from app.engine.arguments import Arguments
from app.engine.assisted import drafts, guesser, prepare, remember
from app.engine.beside import Beside, StaticStore
from app.engine.decode import Decoder, Unheard
from app.engine.desk import reserve_for
from app.engine.encoding import encode, encode_literal
from app.engine.events import Ended, Note, StatusChanged
from app.engine.fast.decoding import Trial
from app.engine.healing import heal
from app.engine.outcome import cut_short, end_of, explain
from app.engine.prompt import Prompt, build_prompt
from app.engine.sampling import SEED_LIMIT
from app.engine.speculation.gains import LibraryGuesses, who_guesses
from app.engine.streamer import RunStreamer
from app.engine.text import opening
from app.errors import Cancelled, OutOfMemory
from app.models.memory import hand_back
from app.models.quiet import hushed
from app.parameters.resolve import Resolution, read_back, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.conversation import Json
    from app.engine.assisted import Draft
    from app.engine.prefix_cache import PrefixCache
    from app.engine.run import LiveRun
    from app.models.facts import ModelFacts
    from app.models.loading import LoadedModel

REPEATED = "this repeats a reply in which nobody guessed ahead"
OPENING = 16
"""Tokens at the end of a prompt among which the tag is that opens a thinking block."""


def execute(run: LiveRun, loaded: LoadedModel, blocks: PrefixCache, beside: Beside | None = None) -> None:
    """Compute a run; whatever happens, its log gets an end."""
    execution = Execution(run, loaded, blocks, beside or Beside())
    attempt(execution, execution.compute)


def attempt(execution: Execution, step: Callable[[], Ended | None]) -> bool:
    """Carry out a step of a computation. When that ends the run, or fails, its log gets the end; returns whether it goes on."""
    short = False
    try:
        end = step()
    except Cancelled:
        end = execution.cut(RunStatus.STOPPED, FinishReason.STOPPED)
    except Exception as error:  # noqa: BLE001  (whatever a model raises ends its run and nothing else)
        told = explain(error)
        short = isinstance(told, OutOfMemory)
        end = execution.cut(RunStatus.FAILED, FinishReason.ERROR, str(told))
    if end is None:
        return True
    if short:  # only now: while the error is at hand, it holds what the model was computing with
        execution.make_room()
    if not execution.run.inside.empty:
        execution.beside.keep(execution.run.inside)
    execution.run.append(end)
    return False


@dataclass
class Execution:
    """A run being computed, and its record as far as it is known."""

    run: LiveRun
    loaded: LoadedModel
    blocks: PrefixCache
    beside: Beside = field(default_factory=Beside)
    streamer: RunStreamer | None = None
    decoder: Decoder | None = None
    resolution: Resolution | None = None
    record: Run = field(init=False)
    facts: ModelFacts = field(init=False)

    def __post_init__(self) -> None:
        """Begin the record with what was asked of which model."""
        self.facts = self.loaded.facts
        request = self.run.request
        self.record = Run(
            request.run_id,
            request.message_id,
            requested=dict(request.requested),
            model_fingerprint={**self.loaded.facts.fingerprint, "prefill": str(self.blocks.cuts)},
        )

    def compute(self) -> Ended:
        """The whole run. Raises Cancelled, FaderError, or whatever the model raises."""
        prompt, values, streamer = self.prepare()
        result = self._generate(prompt, values)
        if draft := self._draft(values):
            remember(draft, values)
        if streamer.at_once:
            self._take(result)
        ended = self.finish()
        self._learn(ended.run.stats)
        return ended

    def _learn(self, stats: Stats) -> None:
        """What guesses in the library's loop gained decides whether they take part in the next replies."""
        guesses = self.streamer.guesses if self.streamer else None
        if isinstance(guesses, LibraryGuesses) and stats.gain and stats.tokens_per_s:
            self.beside.decoding.gains.saw(guesses.who, stats.gain, stats.new_tokens / stats.tokens_per_s)

    def prepare(self) -> tuple[Prompt, Mapping[str, Json], RunStreamer]:
        """The prompt, the effective values, and who is told of tokens. Raises FaderError."""
        self.run.append(StatusChanged(RunStatus.PREFILL))
        prompt = self._prompt()
        values = self._resolve(prompt).values
        prompt = self._heal(prompt, values)
        self.record = replace(self.record, prompt_ids=prompt.ids)
        self.streamer = self._stream(prompt, values)
        return prompt, values, self.streamer

    def finish(self) -> Ended:
        """The end of a run that came through."""
        assert self.streamer is not None  # noqa: S101
        self.streamer.end()
        self._read_back()
        return end_of(self.run, self.record, self.streamer)

    def make_room(self) -> None:
        """Memory ran out: give back whatever is held only to save time."""
        self.run.inside.clear()
        self.blocks.clear()
        self.beside.static = StaticStore()
        if self.beside.draft and self.beside.draft.reader:
            self.beside.draft.reader.free()
        hand_back()

    def cut(self, status: RunStatus, reason: FinishReason, error: str | None = None) -> Ended:
        """The end of a run that did not come through."""
        self._read_back()
        if self.streamer:
            self.streamer.end()
        return cut_short(self.run, self.record, status, reason, error, self.streamer)

    def _prompt(self) -> Prompt:
        request, facts = self.run.request, self.loaded.facts
        if request.history:  # asked once; the negative prompt reads the same messages
            self.run.request = request = replace(request, messages=request.history(), history=None)
        if facts.is_encoder_decoder and request.prefix_text and not request.prefix_ids:
            # A typed beginning goes to the decoder; the encoder reads the message only.
            ids = tuple(encode_literal(self.loaded.tokenizer, request.prefix_text))
            self.run.request = request = replace(request, prefix_ids=ids)
        if request.prompt_ids:
            end = self.loaded.tokenizer.decode(list(request.prompt_ids[-OPENING:]), skip_special_tokens=False)
            return Prompt(request.prompt_ids, "", opening=opening(str(end)))
        values = resolve(request.requested, facts, sources=request.sources).values
        prompt = build_prompt(
            self.loaded.tokenizer,
            facts,
            request.messages,
            system_prompt=request.system_prompt,
            prefix="" if request.prefix_ids else request.prefix_text,
            reserve=reserve_for(values, facts),
            policy=str(values["context_policy"]),
        )
        self._note(prompt.notes)
        return prompt

    def _resolve(self, prompt: Prompt) -> Resolution:
        self.resolution = self._resolved(prompt)
        if rests := self._rests(self.resolution.values):
            self.facts = replace(self.facts, guessing_rests=rests)
            self.resolution = self._resolved(prompt)
        seed = self.resolution.values["seed"]
        self.record = replace(
            self.record,
            seed=secrets.randbelow(SEED_LIMIT) if seed is None else int(seed),
            effective=dict(self.resolution.values),
            explained=_explained(self.resolution, prompt),
        )
        self._note(self.resolution.notes)
        return self.resolution

    def _resolved(self, prompt: Prompt) -> Resolution:
        request = self.run.request
        length = len(request.prefix_ids) + (0 if self.facts.is_encoder_decoder else len(prompt.ids))
        return resolve(request.requested, self.facts, sources=request.sources, prompt_tokens=length)

    def _draft(self, values: Mapping[str, Json]) -> Draft | None:
        """The draft model, if it takes part in this run."""
        draft = self.beside.draft
        return draft if drafts(draft, values, self.facts) else None

    def _rests(self, values: Mapping[str, Json]) -> str | None:
        """Why guesses that the library's loop would make are left out of this run. A repeated run takes the way it took before."""
        draft, request = self._draft(values), self.run.request
        if (who := who_guesses(values, draft)) is None:
            return None
        if request.library_steps is not None:
            return REPEATED if request.unguessed else None
        decoding = self.beside.decoding
        ours = decoding.step is not None and (draft is None or draft.reader is not None)
        return None if ours else decoding.gains.resting(who)

    def _note(self, notes: Sequence[str]) -> None:
        for note in notes:
            if note not in self.record.notes:
                self.record = replace(self.record, notes=(*self.record.notes, note))
                self.run.append(Note(note))

    def _heal(self, prompt: Prompt, values: Any) -> Prompt:
        """Token healing: the last token of a typed beginning is chosen again among those that start alike."""
        request = self.run.request
        if not values["token_healing"] or request.prefix_ids or not request.prefix_text:
            return prompt
        ids, more = heal(self.loaded.tokenizer, prompt.ids, self._one_token)
        self.run.request = replace(request, prefix_text=request.prefix_text + more)
        return replace(prompt, ids=ids, text=prompt.text + more)

    def _one_token(self, ids: Sequence[int], processor: Any) -> int:
        """The likeliest next token of a prompt under one processor."""
        import torch
        from transformers import GenerationConfig, LogitsProcessorList

        model: Any = self.loaded.model
        given = torch.tensor([ids], device=model.device)
        result = model.generate(
            given,
            attention_mask=torch.ones_like(given),
            generation_config=GenerationConfig(max_new_tokens=1, do_sample=False),
            logits_processor=LogitsProcessorList([processor]),
            custom_generate=Decoder(Unheard(), self.run.cancelled, 0, self.blocks),
        )
        return int(result[0, -1])

    def _stream(self, prompt: Prompt, values: Any) -> RunStreamer:
        request = self.run.request
        return RunStreamer(
            self.run,
            self.loaded.tokenizer,
            prefix_ids=request.prefix_ids,
            prefix_text=request.prefix_text,
            stops=values["stop_strings"] or (),
            opening=prompt.opening,
            count=int(values["num_return_sequences"]),
            at_once=int(values["num_beams"]) > 1,
            prompt_tokens=len(prompt.ids) + len(request.prefix_ids),
            trace_top_k=int(values["trace_top_k"] or 0),
            kernels=self.loaded.kernels,
        )

    def _generate(self, prompt: Prompt, values: Any) -> Any:
        import torch
        from transformers import GenerationConfig

        assert self.resolution and self.streamer and self.record.seed is not None  # noqa: S101, PT018
        model: Any = self.loaded.model
        ids = list(prompt.ids) if self.loaded.facts.is_encoder_decoder else [*prompt.ids, *self.run.request.prefix_ids]
        kwargs = self.resolution.generation_kwargs(self._encode)
        arguments = Arguments(self.run, self.loaded, self.beside, values)
        with hushed:
            config = GenerationConfig(**kwargs)
            given = torch.tensor([ids], device=model.device)
            return model.generate(
                given,
                attention_mask=torch.ones_like(
                    given
                ),  # left out, a pad token among what was said would pass for padding
                generation_config=config,
                logits_processor=arguments.processors(prompt, config),
                stopping_criteria=arguments.criteria(self.streamer),
                custom_generate=self._decoder(values),
                **arguments.others(config),
            )

    def _decoder(self, values: Any) -> Callable[..., Any]:
        """Our loop. It carries what the library's loops need besides, because generate keeps that from a callable."""
        seed = self.record.seed
        assert self.streamer is not None and seed is not None  # noqa: S101, PT018
        library: dict[str, Any] = {"streamer": self.streamer}
        draft = self._draft(values)
        if draft:
            library |= prepare(draft, self.loaded, values)
            fingerprint = {**self.record.model_fingerprint, "draft": dict(draft.loaded.facts.fingerprint)}
            self.record = replace(self.record, model_fingerprint=fingerprint)
        self.decoder = Decoder(
            self.streamer,
            self.run.cancelled,
            seed,
            self.blocks,
            position=len(self.run.request.prefix_ids),
            observer=self.streamer.tracer,
            library=library,
            inside=self.run.inside,
            static=self.beside.static,
            trial=self.beside.trial if self.run.request.library_steps is None else Trial(),
            guessing=who_guesses(values, draft),
            draft=guesser(draft, values, self.run.cancelled) if draft else None,
        )
        return self.decoder

    def _encode(self, text: str) -> list[int]:
        return encode(self.loaded.tokenizer, text)

    def _take(self, result: Any) -> None:
        """The sequences that beam search returns at its end, cut behind their first end token."""
        assert self.streamer is not None and self.streamer.preparation is not None  # noqa: S101, PT018
        prepared = self.streamer.preparation
        eos = prepared.config._eos_token_tensor  # noqa: SLF001
        ends = set() if eos is None else set(eos.flatten().tolist())
        if len(result) < len(self.streamer.strands):
            self._note([f"num_return_sequences: only {len(result)} different replies obey the settings."])
            del self.streamer.strands[len(result) :]
        for index, row in enumerate(result.tolist()):
            ids = row[prepared.prompt_length :]
            end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
            for token in ids[: end + 1]:
                self.streamer.token(index, token)

    def _decoded(self) -> dict[str, Json]:
        """What decoded it, once that is known."""
        if self.decoder is None or not self.decoder.decoded_by:
            return {}
        before = self.run.request.library_steps
        if before is None:
            return {"decode": self.decoder.decoded_by}
        return (
            {"decode": before} if before else {}
        )  # the run repeated took the same path: what it said of it still holds

    def _read_back(self) -> None:
        """Put what generate really ran with into the record, and what decoded."""
        if told := self._decoded():
            self.record = replace(self.record, model_fingerprint={**self.record.model_fingerprint, **told})
        if self.streamer and self.streamer.preparation and self.resolution:
            values = read_back(self.streamer.preparation.config, self.resolution)
            self.record = replace(self.record, effective={**values, "seed": self.record.seed})


def _explained(resolution: Resolution, prompt: Prompt) -> dict[str, Json]:
    """Why every value is what it is; where the context policy left messages out, with their ids as ``omitted``."""
    told: dict[str, Json] = resolution.explained_json()
    if prompt.omitted:  # only then, so that runs without share one stored document
        told["context_policy"]["omitted"] = list(prompt.omitted)
    return told
