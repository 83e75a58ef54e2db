"""Which experts of a mixture each token of a reply was sent to: read again from its tokens, at the door of the experts themselves.

What stands there (the chosen experts and their weights) is what the model computes with, whatever its router did before: a correction
bias that moves the choice but not the weights, groups, shared experts. So nothing of a router is computed twice here.
"""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from app.engine.score import Question
from app.errors import Cancelled, RefusedInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.models.loading import LoadedModel

LIMIT = 64 * 2**20
"""Bytes kept of one reply; the tokens behind are left out, which ``Routing.complete`` tells."""
DENSE = "This model is dense: every token passes through all of its weights, so there are no experts to choose from."
_DOORS = ({"top_k_index", "router_indices", "selected_experts"}, {"top_k_weights", "routing_weights"})
_NO_SCORE = -1


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
        doors = _doors(model)
        refuse_unreadable(loaded.facts.num_experts, encoder=loaded.facts.is_encoder_decoder, doors=len(doors))
        ids = torch.tensor([self.ids], device=model.device)
        record = _Record(self, doors)
        with torch.inference_mode(), _listening(doors) as heard:
            for first, outputs in self._forward(model.base_model, ids, chunk):
                if not record.add(first, [heard.pop(name) for name in doors], outputs.get("router_logits")):
                    break
        self.routing = record.routing()

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


def _doors(model: Any) -> dict[str, Any]:
    """The modules that are handed the choice and the weights, by name, in the order of the layers."""
    return {name: module for name, module in model.named_modules() if _is_door(module)}


def _is_door(module: Any) -> bool:
    names = list(inspect.signature(module.forward).parameters)
    return len(names) > 2 and names[1] in _DOORS[0] and names[2] in _DOORS[1]


@contextmanager
def _listening(doors: dict[str, Any]) -> Iterator[dict[str, tuple[Any, Any]]]:
    """Within it, what each door was handed last: [tokens, k] numbers of experts, and [tokens, k] weights."""
    heard: dict[str, tuple[Any, Any]] = {}
    hooks = []
    for name, module in doors.items():

        def hear(_module: Any, args: Any, kwargs: Any, name: str = name) -> None:
            given = [*args, *kwargs.values()]  # in the order of the signature, however it was called
            heard[name] = (given[1], given[2])

        hooks.append(module.register_forward_pre_hook(hear, with_kwargs=True))
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


@dataclass
class _Record:
    """Collects chunk after chunk in arrays that are as large as ``job.limit`` allows."""

    job: RoutingJob
    doors: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict)
    rows: int = 0

    def add(self, first: int, heard: list[tuple[Any, Any]], scores: Any) -> bool:
        """The chunk whose first token is number ``first`` of the ids. False when nothing more is wanted."""
        import torch

        choice = torch.stack([index.cpu() for index, _ in heard], dim=1)
        weight = torch.stack([weight.float().cpu() for _, weight in heard], dim=1)
        logits = _stacked(scores, *choice.shape[:2])
        skipped = max(0, self.job.start - first)
        part = _part(choice[skipped:], weight[skipped:], None if logits is None else logits[skipped:])
        if not self.arrays:
            self._reserve(part)
        begin = max(first, self.job.start) - self.job.start
        end = min(begin + len(part["choice"]), self.rows)
        for name, values in part.items():
            self.arrays[name][begin:end] = values[: end - begin]
        return end < self.rows

    def _reserve(self, part: dict[str, Any]) -> None:
        per_token = sum(values.dtype.itemsize * int(np.prod(values.shape[1:])) for values in part.values())
        self.rows = max(1, min(len(self.job.ids) - self.job.start, self.job.limit // per_token))
        self.arrays = {name: np.zeros((self.rows, *values.shape[1:]), values.dtype) for name, values in part.items()}

    def routing(self) -> Routing:
        """Everything there is."""
        experts = max(int(door.num_experts) for door in self.doors.values())
        self.arrays["choice"][self.arrays["choice"] >= experts] = -1
        return Routing(
            layers=tuple(int(re.findall(r"\d+", name)[0]) for name in self.doors),
            experts=experts,
            tokens=len(self.job.ids) - self.job.start,
            scores=self.arrays.pop("scores", None),
            **self.arrays,
        )


def _stacked(scores: Any, tokens: int, layers: int) -> Any:
    """The router's logits as float32 [tokens, layers, experts]; None where they aren't given, or not for every layer."""
    import torch

    if not scores or len(scores) != layers or any(layer.numel() != scores[0].numel() for layer in scores):
        return None
    return torch.stack([layer.float().cpu().reshape(tokens, -1) for layer in scores], dim=1)


def _part(choice: Any, weight: Any, logits: Any) -> dict[str, Any]:
    """A chunk as arrays, the experts of a token in the order of their weights."""
    import torch

    order = weight.argsort(dim=-1, descending=True, stable=True)
    choice, weight = choice.gather(-1, order), weight.gather(-1, order)
    part = {"choice": choice.numpy().astype(np.int16), "weight": weight.numpy()}
    if logits is None:
        return {**part, "place": np.full(choice.shape, _NO_SCORE, np.int16)}
    own = logits.gather(-1, choice.clamp(max=logits.shape[-1] - 1))
    place = torch.stack([(logits > own[..., i : i + 1]).sum(dim=-1) for i in range(choice.shape[-1])], dim=-1)
    return {**part, "place": place.numpy().astype(np.int16), "scores": logits.numpy().astype(np.float16)}
