"""Reading ahead: while nobody waits, a finished conversation is read up to its end, so that its next reply begins sooner.

Only blocks that were read as part of a prompt are reused (``prefix_cache``), so the last reply has to be read once more anyway; here
that is done while the user thinks. It is cut short between two chunks as soon as there is work, and goes on afterwards.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from app.conversation import Message, Role, new_id
from app.engine.decode import Unheard
from app.engine.desk import reserve_for
from app.engine.prefill import Prefill, in_chunks
from app.engine.prompt import build_prompt
from app.errors import Cancelled, FaderError
from app.models.budget import kv_bytes_per_token
from app.models.devices import free_bytes
from app.models.options import LoadOptions
from app.models.quiet import hushed
from app.parameters.resolve import resolve

if TYPE_CHECKING:
    from threading import Event

    import torch

    from app.engine.prefix_cache import PrefixCache
    from app.engine.run import LiveRun
    from app.models.loading import LoadedModel

log = logging.getLogger(__name__)
SPARE_BYTES = 2**30
"""Memory that stays free beside what the reading takes."""


@dataclass(eq=False)
class ReadAhead:
    """The reading that a finished run leaves to be done."""

    run: LiveRun
    loaded: LoadedModel
    blocks: PrefixCache

    def go_on(self, wanted: Event) -> bool:
        """Read on until ``wanted`` is set; True when there is nothing left to read. Never raises: nobody asked for it."""
        try:
            ids = self._ids()
            if self._worthwhile(ids):
                self._read(ids, wanted)
        except Cancelled:
            return False
        except Exception:
            log.exception("Reading ahead failed; the next reply reads for itself")
        return True

    def _ids(self) -> tuple[int, ...]:
        """What the next prompt of this conversation begins with, whatever will be said: its whole chunks."""
        ended, request = self.run.ended, self.run.request
        if ended is None or not ended.text or not request.conversation_id or self.loaded.facts.is_encoder_decoder:
            return ()
        reply = Message(new_id(), request.conversation_id, None, Role.ASSISTANT, ended.text)
        long = self.blocks.cuts.tail + 1  # a shorter message would be read together with what is before it
        one, other = (self._prompt((*request.messages, reply, _question(word * long))) for word in ("a ", "the "))
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        return one[: max((end for end in self.blocks.cuts.of(one) if end <= common), default=0)]

    def _prompt(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        request, facts = self.run.request, self.loaded.facts
        values = resolve(request.requested, facts, sources=request.sources).values
        try:
            prompt = build_prompt(
                self.loaded.tokenizer,
                facts,
                messages,
                system_prompt=request.system_prompt,
                reserve=reserve_for(values, facts),
                policy=str(values["context_policy"]),
            )
        except FaderError:  # the next message will be told that the context is full
            return ()
        return prompt.ids

    def _worthwhile(self, ids: tuple[int, ...]) -> bool:
        """Whether something is left to read, and there is memory for it: once in the cache that is read into, once in blocks."""
        needed = len(ids) * kv_bytes_per_token(self.loaded.model.config.get_text_config())
        if self.blocks.known(ids) == len(ids) or needed > self.blocks.capacity:
            return False
        where = LoadOptions(device="cpu" if self.loaded.model.device.type == "cpu" else "auto")
        return 2 * needed + SPARE_BYTES < free_bytes(where)

    def _read(self, ids: tuple[int, ...], wanted: Event) -> None:
        import torch
        from transformers import GenerationConfig

        model: Any = self.loaded.model
        with hushed:
            given = torch.tensor([ids], device=model.device)
            model.generate(
                given,
                attention_mask=torch.ones_like(given),
                generation_config=GenerationConfig(max_new_tokens=1, do_sample=False),
                custom_generate=_OnlyRead(Prefill(self.blocks, wanted, Unheard())),
            )


@dataclass(frozen=True, slots=True)
class _OnlyRead:
    """What generate runs instead of a decode loop."""

    prefill: Prefill

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        del logits_processor, stopping_criteria
        if in_chunks(model, kwargs):
            self.prefill.read(model, input_ids, generation_config, kwargs)
        return input_ids


def _question(text: str) -> Message:
    return Message(new_id(), "", None, Role.USER, text)
