"""One run from its request to its end: prompt, parameters, generate, outcome. Runs in the engine's thread."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from app.conversation import FinishReason, Run, RunStatus
from app.engine.decode import Decoder
from app.engine.desk import reserve_for
from app.engine.encoding import encode
from app.engine.events import Ended, Note, StatusChanged
from app.engine.outcome import cut_short, end_of, explain
from app.engine.prompt import Prompt, build_prompt
from app.engine.streamer import RunStreamer, StopOnCancel, StopOnText
from app.errors import Cancelled, FaderError
from app.parameters.resolve import Resolution, read_back, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.prefix_cache import PrefixCache
    from app.engine.run import LiveRun
    from app.models.loading import LoadedModel

SEED_LIMIT = 2**32


def execute(run: LiveRun, loaded: LoadedModel, blocks: PrefixCache) -> None:
    """Compute a run; whatever happens, its log gets an end."""
    execution = Execution(run, loaded, blocks)
    try:
        end = execution.compute()
    except Cancelled:
        end = execution.cut(RunStatus.STOPPED, FinishReason.STOPPED)
    except FaderError as error:
        end = execution.cut(RunStatus.FAILED, FinishReason.ERROR, str(error))
    except Exception as error:  # noqa: BLE001  (whatever a model raises ends its run and nothing else)
        end = execution.cut(RunStatus.FAILED, FinishReason.ERROR, str(explain(error)))
    run.append(end)


@dataclass
class Execution:
    """A run being computed, and its record as far as it is known."""

    run: LiveRun
    loaded: LoadedModel
    blocks: PrefixCache
    streamer: RunStreamer | None = None
    resolution: Resolution | None = None
    record: Run = field(init=False)

    def __post_init__(self) -> None:
        """Begin the record with what was asked of which model."""
        request = self.run.request
        self.record = Run(
            request.run_id,
            request.message_id,
            requested=dict(request.requested),
            model_fingerprint=dict(self.loaded.facts.fingerprint),
        )

    def compute(self) -> Ended:
        """The whole run. Raises Cancelled, FaderError, or whatever the model raises."""
        self.run.append(StatusChanged(RunStatus.PREFILL))
        prompt = self._prompt()
        values = self._resolve(prompt).values
        prompt = self._heal(prompt, values)
        self.record = replace(self.record, prompt_ids=prompt.ids)
        self.streamer = self._stream(prompt, values)
        result = self._generate(prompt, values)
        if self.streamer.at_once:
            self._take(result)
        self.streamer.end()
        self._read_back()
        return end_of(self.run, self.record, self.streamer)

    def cut(self, status: RunStatus, reason: FinishReason, error: str | None = None) -> Ended:
        """The end of a run that did not come through."""
        self._read_back()
        if self.streamer:
            self.streamer.end()
        return cut_short(self.run, self.record, status, reason, error, self.streamer)

    def _prompt(self) -> Prompt:
        request, facts = self.run.request, self.loaded.facts
        if request.prompt_ids:
            return Prompt(request.prompt_ids, "")
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
        request = self.run.request
        length = 0 if self.loaded.facts.is_encoder_decoder else len(prompt.ids) + len(request.prefix_ids)
        self.resolution = resolve(request.requested, self.loaded.facts, sources=request.sources, prompt_tokens=length)
        seed = self.resolution.values["seed"]
        self.record = replace(
            self.record,
            seed=secrets.randbelow(SEED_LIMIT) if seed is None else int(seed),
            effective=dict(self.resolution.values),
            explained={name: asdict(e) for name, e in self.resolution.explained.items()},
        )
        self._note(self.resolution.notes)
        return self.resolution

    def _note(self, notes: Sequence[str]) -> None:
        for note in notes:
            if note not in self.record.notes:
                self.record = replace(self.record, notes=(*self.record.notes, note))
                self.run.append(Note(note))

    def _heal(self, prompt: Prompt, values: Any) -> Prompt:
        """Token healing: the tail of a typed beginning is tokenized again together with what follows."""
        request = self.run.request
        if not values["token_healing"] or request.prefix_ids or not request.prefix_text:
            return prompt
        import torch

        model: Any = self.loaded.model
        start = len(prompt.ids) - len(encode(self.loaded.tokenizer, request.prefix_text))
        healed = model.heal_tokens(torch.tensor([prompt.ids]), self.loaded.tokenizer)[0].tolist()
        text = str(self.loaded.tokenizer.decode(healed[start:]))
        self.run.request = replace(request, prefix_text=text)
        return replace(prompt, ids=tuple(healed))

    def _stream(self, prompt: Prompt, values: Any) -> RunStreamer:
        request = self.run.request
        return RunStreamer(
            self.run,
            self.loaded.tokenizer,
            prefix_ids=request.prefix_ids,
            prefix_text=request.prefix_text,
            stops=values["stop_strings"] or (),
            opens_thinking=prompt.opens_thinking and not request.prefix_text,
            count=int(values["num_return_sequences"]),
            at_once=int(values["num_beams"]) > 1,
            prompt_tokens=len(prompt.ids) + len(request.prefix_ids),
        )

    def _generate(self, prompt: Prompt, values: Any) -> Any:
        import torch
        from transformers import GenerationConfig

        assert self.resolution and self.streamer and self.record.seed is not None  # noqa: S101, PT018
        model: Any = self.loaded.model
        prefix = list(self.run.request.prefix_ids)
        ids = list(prompt.ids) if self.loaded.facts.is_encoder_decoder else [*prompt.ids, *prefix]
        decoder = Decoder(self.streamer, self.run.cancelled, self.record.seed, self.blocks, library=self._library())
        config = GenerationConfig(**self.resolution.generation_kwargs(self._encode))
        return model.generate(
            torch.tensor([ids], device=model.device),
            generation_config=config,
            stopping_criteria=self._criteria(values),
            custom_generate=decoder,
            **self._arguments(values),
        )

    def _encode(self, text: str) -> list[int]:
        return encode(self.loaded.tokenizer, text)

    def _library(self) -> dict[str, Any]:
        """What the library's assisted loop needs; our callable carries it because generate keeps it from callables."""
        return {"streamer": self.streamer}

    def _criteria(self, values: Any) -> Any:
        from transformers import StoppingCriteriaList, StopStringCriteria

        assert self.streamer is not None  # noqa: S101
        criteria: list[Any] = [StopOnCancel(self.run, report=self.streamer.at_once)]
        if stops := values["stop_strings"]:
            tokenizer = self.loaded.tokenizer
            at_once = self.streamer.at_once
            criteria.append(StopStringCriteria(tokenizer, stops) if at_once else StopOnText(self.streamer, stops))
        return StoppingCriteriaList(criteria)

    def _arguments(self, values: Any) -> dict[str, Any]:
        """Arguments of generate beside its config."""
        import torch

        device = self.loaded.model.device
        arguments: dict[str, Any] = {}
        if values["negative_prompt"] and values["guidance_scale"] not in (None, 1.0):
            arguments["negative_prompt_ids"] = torch.tensor([self._encode(values["negative_prompt"])], device=device)
        if self.loaded.facts.is_encoder_decoder and self.run.request.prefix_ids:
            start = self.loaded.model.config.decoder_start_token_id
            arguments["decoder_input_ids"] = torch.tensor([[start, *self.run.request.prefix_ids]], device=device)
        return arguments

    def _take(self, result: Any) -> None:
        """The sequences that beam search returns at its end, cut behind their first end token."""
        assert self.streamer is not None and self.streamer.preparation is not None  # noqa: S101, PT018
        prepared = self.streamer.preparation
        eos = prepared.config._eos_token_tensor  # noqa: SLF001
        ends = set() if eos is None else set(eos.flatten().tolist())
        for index, row in enumerate(getattr(result, "sequences", result).tolist()):
            ids = row[prepared.prompt_length :]
            end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
            for token in ids[: end + 1]:
                self.streamer.token(index, token)

    def _read_back(self) -> None:
        """Put what generate really ran with into the record."""
        if self.streamer and self.streamer.preparation and self.resolution:
            values = read_back(self.streamer.preparation.config, self.resolution)
            self.record = replace(self.record, effective={**values, "seed": self.record.seed})
