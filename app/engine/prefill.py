"""Reading a prompt: in chunks (``cuts``), so that Stop is heard between two of them and whole ones can be reused.

Every prompt is read through here, also the one that nobody waits for yet (``ahead``): the same chunks give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from app.engine.prefix_cache import can_reuse
from app.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from threading import Event

    import torch
    from transformers import GenerationConfig

    from app.engine.prefix_cache import PrefixCache


class Reader(Protocol):
    """Who is told how far the reading is."""

    def prefill(self, done: int, total: int, reused: int) -> None:
        """``done`` of ``total`` prompt tokens have been read, ``reused`` of them from the cache."""


def in_chunks(model: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a prompt can be read chunk by chunk, and its blocks be kept."""
    return not model.config.is_encoder_decoder and bool(kwargs.get("use_cache")) and can_reuse(kwargs.get("cache"))


@dataclass(frozen=True, slots=True)
class Prefill:
    """``cancelled`` ends it between two chunks; what was read until then stays in ``blocks``."""

    blocks: PrefixCache
    cancelled: Event
    reader: Reader

    def read(self, model: Any, input_ids: torch.Tensor, config: GenerationConfig, kwargs: dict[str, Any]) -> Any:
        """Read ``input_ids`` [sequences, tokens] with what generate prepared, and return the outputs of the last stretch; keys and
        values are in the cache then. Raises Cancelled, or what the model raises."""
        count, total = input_ids.shape
        if not in_chunks(model, kwargs):
            self.reader.prefill(0, total, 0)
            return model._prefill(input_ids, config, kwargs)  # noqa: SLF001
        # All sequences share the prompt: it is read once, and its keys and values are repeated.
        outputs = self._read_one(model, input_ids[:1], {**kwargs, "position_ids": None})
        if count > 1:
            kwargs["cache"].batch_repeat_interleave(count)
            outputs.logits = outputs.logits[:, -1:].expand(count, -1, -1)
        return outputs

    def _read_one(self, model: Any, input_ids: torch.Tensor, kwargs: dict[str, Any]) -> Any:
        cache, ids = kwargs["cache"], input_ids[0].tolist()
        total, outputs = len(ids), None
        start = reused = self.blocks.restore(ids, cache)
        for end in self._ends(ids, reused):
            self._go_on(ids[:start], cache)
            self.reader.prefill(start, total, reused)
            step = model.prepare_inputs_for_generation(
                input_ids[:, start:end], is_first_iteration=start == reused, **kwargs
            )
            outputs, start = model(**step, return_dict=True), end
        self._go_on(ids, cache)
        self.reader.prefill(total, total, reused)
        self.blocks.keep(ids, cache)
        return outputs

    def _ends(self, ids: list[int], reused: int) -> list[int]:
        ends = [end for end in self.blocks.cuts.of(ids) if reused < end < len(ids)]
        return [*ends, len(ids)]

    def _go_on(self, read: list[int], cache: Any) -> None:
        """Raise Cancelled when it is time; a prompt that is sent again then begins where it was stopped."""
        if self.cancelled.is_set():
            self.blocks.keep(read, cache)
            raise Cancelled
