"""Which experts of a mixture each token of a reply was sent to: read again from its tokens, at the door of the experts themselves.

What stands there (the chosen experts and their weights) is what the model computes with, whatever its router did before: a correction
bias that moves the choice but not the weights, groups, shared experts. So nothing of a router is computed twice here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.engine.score import Question
from app.errors import Cancelled, RefusedInput
from app.insight.doors import Record, doors_of, listening

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from app.models.loading import LoadedModel

LIMIT = 64 * 2**20
"""Bytes kept of one reply; the tokens behind are left out, which ``Routing.complete`` tells."""
DENSE = "This model is dense: every token passes through all of its weights, so there are no experts to choose from."


@dataclass(frozen=True, eq=False)
class Routing:
    """The way of ``len(choice)`` tokens through the layers that have experts.

    ``choice``: int16 [tokens, layers, k], the experts in the order of their weights, -1 for an empty place. ``weight``: float32 of the
    same shape, what the expert's answer was multiplied by. ``place``: int16 of the same shape, the expert's place from 0 by the router's
    own scores (above k - 1: a correction bias or a group brought it in), -1 unknown. ``scores``: float16 [tokens, layers, experts], the
    router's logits, None where the model doesn't give them. ``layers``: their numbers from 0. ``tokens``: of the whole reply.
    """

    layers: tuple[int, ...]
    experts: int
    tokens: int
    choice: np.ndarray[Any, np.dtype[np.int16]]
    weight: np.ndarray[Any, np.dtype[np.float32]]
    place: np.ndarray[Any, np.dtype[np.int16]]
    scores: np.ndarray[Any, np.dtype[np.float16]] | None

    @property
    def complete(self) -> bool:
        """Whether every token of the reply is there."""
        return len(self.choice) == self.tokens

    @property
    def per_token(self) -> int:
        """Experts a token is sent to in each layer."""
        return int(self.choice.shape[-1])


@dataclass(eq=False)
class RoutingJob(Question):
    """The question after the routing of ``ids[start:]``; ``done``: tokens read so far of ``wanted``, the prompt's included."""

    ids: tuple[int, ...] = ()
    start: int = 0
    done: int = 0
    limit: int = LIMIT
    routing: Routing | None = None

    @property
    def wanted(self) -> int:
        """Tokens to be read."""
        return len(self.ids)

    def answer(self, loaded: LoadedModel, chunk: int) -> None:
        """Read the reply once more. Raises RefusedInput for models without readable experts, Cancelled."""
        import torch

        model: Any = loaded.model
        doors = doors_of(model)
        refuse_unreadable(loaded.facts.num_experts, encoder=loaded.facts.is_encoder_decoder, doors=len(doors))
        ids = torch.tensor([self.ids], device=model.device)
        record = Record(start=self.start, tokens=len(self.ids), limit=self.limit)
        with torch.inference_mode(), listening(doors) as heard:
            for first, outputs in self._forward(model.base_model, ids, chunk):
                if not record.add(first, [heard.pop(name) for name in doors], outputs.get("router_logits")):
                    break
        experts = max(int(door.num_experts) for door in doors.values())
        arrays = record.finished(experts)
        layers = tuple(int(re.findall(r"\d+", name)[0]) for name in doors)
        self.routing = Routing(layers, experts, len(self.ids) - self.start, **arrays)

    def _forward(self, base: Any, ids: Any, chunk: int) -> Iterator[tuple[int, Any]]:
        """The model without its head, chunk after chunk."""
        kept: dict[str, Any] = {}
        asked = {"output_router_logits": True} if "router_logits" in (base._can_record_outputs or {}) else {}  # noqa: SLF001
        for first in range(0, len(self.ids), chunk):
            if self.cancelled.is_set():
                raise Cancelled("The reading was stopped.")
            outputs = base(input_ids=ids[:, first : first + chunk], use_cache=True, return_dict=True, **asked, **kept)
            name = "cache" if "cache" in outputs else "past_key_values"
            kept = {name: outputs[name]}
            self.done = min(first + chunk, len(self.ids))
            yield first, outputs


def refuse_unreadable(num_experts: int, *, encoder: bool = False, doors: int = 1) -> None:
    """Raise RefusedInput, in a plain sentence, for a model of which no routing can be told."""
    if not num_experts:
        raise RefusedInput(DENSE)
    if encoder:
        raise RefusedInput("Experts are shown for models that only have a decoder; this one has a separate encoder.")
    if not doors:
        raise RefusedInput("This architecture calls its experts in a way of its own, so their choice can’t be read.")
