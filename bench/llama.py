"""llama.cpp as a peer, through llama-cpp-python: an optional extra that is built from source (see bench/README.md).

It runs in a process of its own, with its threads as they come: in Fader's process those that wait for work sleep, which would make it half
as fast. ``python -m bench.llama`` is that process: a question per line, as JSON, an answer per line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import psutil

CONTEXT = 4096
GREEDY: Mapping[str, float] = MappingProxyType({"temp": 0.0})
CHAT: Mapping[str, float] = MappingProxyType({"temp": 0.2, "top_k": 50, "top_p": 0.9, "repeat_penalty": 1.1})
"""What a chat with the built-in model samples with."""


def there() -> bool:
    """Whether the extra is installed."""
    return find_spec("llama_cpp") is not None


def speed(prompt: Sequence[int], tokens: int, sampling: Mapping[str, float] = GREEDY) -> float:
    """Tokens per second after a prompt, as many tokens as asked for, without anything recorded."""
    return _ask(prompt=list(prompt), tokens=tokens, sampling=dict(sampling))


def prefill_speed(prompt: Sequence[int]) -> float:
    """Tokens of a prompt per second."""
    return _ask(prompt=list(prompt), tokens=0, sampling={})


def _ask(**question: Any) -> float:
    process = _process()
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


@cache
def _process() -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-m", "bench.llama"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def answer(model: Any, prompt: Sequence[int], tokens: int, sampling: Mapping[str, float]) -> float:
    """Measure once. Without ``tokens`` the prompt is what is measured."""
    model.reset()
    begun = time.perf_counter()
    model.eval(list(prompt))
    if not tokens:
        return len(prompt) / (time.perf_counter() - begun)
    token = model.sample(**sampling)
    begun = time.perf_counter()
    for _ in range(tokens - 1):
        model.eval([token])
        token = model.sample(**sampling)
    return (tokens - 1) / (time.perf_counter() - begun)


def main() -> None:
    """Answer until nobody asks any more."""
    from llama_cpp import Llama

    from app.models.builtin import builtin_gguf

    cores = psutil.cpu_count(logical=False) or 1
    model = Llama(str(builtin_gguf()), n_ctx=CONTEXT, n_threads=cores, n_threads_batch=cores, verbose=False)
    for line in sys.stdin:
        print(answer(model, **json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
