"""llama.cpp as a peer, through llama-cpp-python: an optional extra that is built from source (see bench/README.md)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import torch

CONTEXT = 4096


def there() -> bool:
    """Whether the extra is installed."""
    return find_spec("llama_cpp") is not None


@cache
def _model(threads: int) -> Any:
    from llama_cpp import Llama

    from app.models.builtin import builtin_gguf

    return Llama(str(builtin_gguf()), n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False)


GREEDY: Mapping[str, float] = MappingProxyType({"temp": 0.0})
CHAT: Mapping[str, float] = MappingProxyType({"temp": 0.2, "top_k": 50, "top_p": 0.9, "repeat_penalty": 1.1})
"""What a chat with the built-in model samples with."""


def speed(prompt: Sequence[int], tokens: int, sampling: Mapping[str, float] = GREEDY) -> float:
    """Tokens per second after a prompt, as many tokens as asked for, without anything recorded."""
    model = _model(torch.get_num_threads())
    model.reset()
    model.eval(list(prompt))
    token = model.sample(**sampling)
    begun = time.perf_counter()
    for _ in range(tokens - 1):
        model.eval([token])
        token = model.sample(**sampling)
    return (tokens - 1) / (time.perf_counter() - begun)


def prefill_speed(prompt: Sequence[int]) -> float:
    """Tokens of a prompt per second."""
    model = _model(torch.get_num_threads())
    model.reset()
    begun = time.perf_counter()
    model.eval(list(prompt))
    return len(prompt) / (time.perf_counter() - begun)
