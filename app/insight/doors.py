"""The doors of a mixture's experts: the modules that are handed each token's choice, and a bounded record of what they were handed."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

_DOORS = ({"top_k_index", "router_indices", "selected_experts"}, {"top_k_weights", "routing_weights"})
"""What the library's experts call the second and the third thing they are handed."""
_NO_SCORE = -1


def doors_of(model: Any) -> dict[str, Any]:
    """The modules that are handed the choice and the weights, by name, in the order of the layers."""
    return {name: module for name, module in model.named_modules() if _is_door(module)}


def _is_door(module: Any) -> bool:
    names = list(inspect.signature(module.forward).parameters)
    return len(names) > 2 and names[1] in _DOORS[0] and names[2] in _DOORS[1]


@contextmanager
def listening(doors: dict[str, Any]) -> Iterator[dict[str, tuple[Any, Any]]]:
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
class Record:
    """Collects chunk after chunk of ``tokens`` ids, from number ``start`` on, in arrays of at most ``limit`` bytes together."""

    start: int
    tokens: int
    limit: int
    arrays: dict[str, Any] = field(default_factory=dict)
    rows: int = 0

    def add(self, first: int, heard: list[tuple[Any, Any]], scores: Any) -> bool:
        """The chunk whose first token is number ``first`` of the ids. False when nothing more is wanted."""
        import torch

        choice = torch.stack([index.cpu() for index, _ in heard], dim=1)
        weight = torch.stack([weight.float().cpu() for _, weight in heard], dim=1)
        logits = _stacked(scores, *choice.shape[:2])
        skipped = max(0, self.start - first)
        part = _part(choice[skipped:], weight[skipped:], None if logits is None else logits[skipped:])
        if not self.arrays:
            self._reserve(part)
        begin = max(first, self.start) - self.start
        end = min(begin + len(part["choice"]), self.rows)
        for name, values in part.items():
            self.arrays[name][begin:end] = values[: end - begin]
        return end < self.rows

    def _reserve(self, part: dict[str, Any]) -> None:
        per_token = sum(values.dtype.itemsize * int(np.prod(values.shape[1:])) for values in part.values())
        self.rows = max(1, min(self.tokens - self.start, self.limit // per_token))
        self.arrays = {name: np.zeros((self.rows, *values.shape[1:]), values.dtype) for name, values in part.items()}

    def finished(self, experts: int) -> dict[str, Any]:
        """The arrays, ``scores`` None where the model gives none; numbers beyond the last expert mean none and become -1."""
        self.arrays["choice"][self.arrays["choice"] >= experts] = -1
        return {"scores": None, **self.arrays}


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
