"""What generate gets beside its config: stopping criteria, extra processors, the negative prompt, and where a decoder starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.engine.encoding import encode_literal
from app.engine.prompt import build_prompt
from app.engine.streamer import StopOnCancel, StopOnTail, StopOnText

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

    from app.conversation import Json
    from app.engine.beside import Beside
    from app.engine.prompt import Prompt
    from app.engine.run import LiveRun
    from app.engine.streamer import RunStreamer
    from app.models.loading import LoadedModel


@dataclass(frozen=True)
class Arguments:
    """The arguments for one run, made from its effective ``values``."""

    run: LiveRun
    loaded: LoadedModel
    beside: Beside
    values: Mapping[str, Json]

    def criteria(self, streamer: RunStreamer) -> StoppingCriteriaList:
        """Stop, and stop strings."""
        from transformers import StoppingCriteriaList

        criteria: list[Any] = [StopOnCancel(self.run, report=streamer.at_once)]
        if stops := self.values["stop_strings"]:
            tokenizer = self.loaded.tokenizer
            criteria.append(StopOnTail(streamer, tokenizer, stops) if streamer.at_once else StopOnText(streamer, stops))
        return StoppingCriteriaList(criteria)

    def processors(self, prompt: Prompt, config: GenerationConfig) -> LogitsProcessorList:
        """The token that the reply must begin with, and the form that it must obey. Raises BadParameter."""
        from transformers import LogitsProcessorList

        from app.engine.exact import ForcedFirstToken

        processors: list[Any] = []
        given, start = self._given(prompt)
        if config.forced_bos_token_id is not None and not given and not self.loaded.facts.is_encoder_decoder:
            processors.append(ForcedFirstToken(config.forced_bos_token_id, start))
        if self.values["output_format"] is not None:
            eos: Any = config.eos_token_id or ()
            forms = self.beside.forms(self.loaded)
            processors.append(forms.processor(self.values["output_format"], tuple(eos), given, start))
        return LogitsProcessorList(processors)

    def _given(self, prompt: Prompt) -> tuple[Sequence[int], int]:
        """The tokens that the reply begins with, and their position in what the (decoding) model reads."""
        request = self.run.request
        if self.loaded.facts.is_encoder_decoder:
            return request.prefix_ids, 1
        if request.prefix_ids or not request.prefix_text:
            return request.prefix_ids, len(prompt.ids)
        start = len(prompt.ids) - len(encode_literal(self.loaded.tokenizer, request.prefix_text))
        return prompt.ids[start:], start

    def others(self, config: GenerationConfig) -> dict[str, Any]:
        """The negative prompt, and the decoder's beginning of an encoder–decoder model."""
        import torch

        device, prefix = self.loaded.model.device, self.run.request.prefix_ids
        arguments: dict[str, Any] = {}
        if self.values["negative_prompt"] and self.values["guidance_scale"] != 1.0:
            row = torch.tensor([self._negative()], device=device)
            arguments["negative_prompt_ids"] = row.expand(int(self.values["num_return_sequences"]), -1)
        if self.loaded.facts.is_encoder_decoder and prefix:
            arguments["decoder_input_ids"] = torch.tensor([[config.decoder_start_token_id, *prefix]], device=device)
        return arguments

    def _negative(self) -> list[int]:
        """The same conversation with the negative prompt in place of the system prompt: only what is unwanted differs."""
        request = self.run.request
        prompt = build_prompt(
            self.loaded.tokenizer,
            self.loaded.facts,
            request.messages,
            system_prompt=str(self.values["negative_prompt"]),
            prefix="" if request.prefix_ids else request.prefix_text,
        )
        return [*prompt.ids, *request.prefix_ids]
