"""Makes the first process's part of a model lead: whatever it computes, the other processes compute at the same time.

The library's tensor-parallel layers add up partial results of all processes inside a forward; a forward that only one process ran would
wait for ever. So every outermost call of a module that takes part is told first.
"""

from __future__ import annotations

import weakref
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any

from app.distributed.caches import Mirror, mirror, on_cpu
from app.distributed.messages import Begin, CacheNumber, Call, returned_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.distributed.group import Group


def lead(model: Any, group: Group, number: int) -> None:
    """Turn a model of the library, loaded under its plan, into a leading one; ``number`` is what the others know it by."""
    leader = Leader(group, number)
    for name in _taking_part(model):
        module = model.get_submodule(name)
        followed: Any = leader.followed(name, module.forward)
        # The library's own wrapping hides the arguments' names, by which generate and others tell modules apart.
        followed.__signature__ = signature(type(module).forward.__get__(module))
        module.forward = followed
    model._prepare_cache_for_generation = leader.beginning(model._prepare_cache_for_generation)  # noqa: SLF001


def _taking_part(model: Any) -> set[str]:
    """Names of the modules in which the processes meet, and of all that contain one: whoever calls one of these calls it in all."""
    from torch.nn import ModuleList

    names = [name for name, module in model.named_modules() if getattr(module, "_is_hooked", False)]
    parts = {".".join(name.split(".")[:depth]) for name in names for depth in range(name.count(".") + 2)}
    return {name for name in parts if not isinstance(model.get_submodule(name), ModuleList)}


class Leader:
    """One model's connection to its other parts; used by the engine's thread only."""

    def __init__(self, group: Group, number: int) -> None:
        self._group = group
        self._number = number
        self._inside = False

    def followed(self, name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
        """A forward that the others follow, unless it is part of one that they follow already."""

        @wraps(stock)
        def forward(*args: Any, **kwargs: Any) -> Any:
            return stock(*args, **kwargs) if self._inside else self._together(name, stock, args, kwargs)

        return forward

    def _together(self, name: str, stock: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import torch

        keep = self._group.number()
        self._group.tell(Call(self._number, name, self._told(args), self._told(kwargs), keep))
        self._inside = True
        try:
            with self._group.computing(), torch.no_grad():
                outputs = stock(*args, **kwargs)
        finally:
            self._inside = False
        made = returned_cache(outputs)
        if made is not None and not hasattr(made, "mirror"):
            self._mirror(made, keep)
        return outputs

    def beginning(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        """Generate's own way to make a cache, with the others making theirs."""

        @wraps(stock)
        def prepare(generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            result = stock(generation_config, model_kwargs, *args, **kwargs)
            cache = model_kwargs.get("cache")
            if cache is not None and not hasattr(cache, "mirror"):
                self._begin(cache)
            return result

        return prepare

    def _begin(self, cache: Any) -> int:
        if cache.get_seq_length():
            raise RuntimeError("a cache that the other processes never saw already holds tokens")
        number = self._group.number()
        self._group.tell(Begin(number, cache))
        self._mirror(cache, number)
        return number

    def _mirror(self, cache: Any, number: int) -> None:
        mirror(cache, Mirror(self._group, self._number, number))
        weakref.finalize(cache, self._group.forgotten.append, number)

    def _told(self, value: Any) -> Any:
        """Arguments for the way to another process: caches by number, tensors in main memory."""
        from transformers import Cache

        if isinstance(value, Cache):
            return CacheNumber(value.mirror.number if hasattr(value, "mirror") else self._begin(value))
        if isinstance(value, dict):
            return {key: self._told(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._told(item) for item in value)
        return on_cpu(value)
