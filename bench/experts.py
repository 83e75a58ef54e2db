"""4-bit experts at ERNIE 4.5's real width, few layers, random weights: memory and speed, and what 28 layers of it would give."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from app.models.experts import FourBitExperts
from app.models.loading import LoadedModel, load_model
from app.settings import Settings
from bench.ernie import HIDDEN, make
from bench.ernie import LAYERS as ALL_LAYERS
from bench.report import Figure, alternate

LAYERS = 3
"""One dense, two with experts: 2.4 GB in 16 bits."""
TOKENS, PROMPT = 24, 512


def figures(home: Path, rounds: int, tokens: int) -> Iterator[Figure]:
    """Memory, decoding and prefill."""
    del tokens
    folder = home / "ernie"
    make(folder, LAYERS)
    settings = Settings(home=home, cache=home / "cache")
    first = load_model(str(folder), settings).report
    loaded = load_model(str(folder), settings)
    report = loaded.report
    parameters = _parameters(loaded)
    yield Figure("resident bytes per parameter", "", [report.resident_bytes / parameters], goal="≤ 0.58 at 28 layers")
    over = (first.peak_bytes - first.resident_bytes) / 1e9
    yield Figure("peak while quantizing, above what stays", "GB", [over], goal="≤ 1.5")
    yield Figure("second load", "s", [report.seconds], "first", [first.seconds], "≤ 0.05")
    yield from _speeds(loaded, rounds)


def _parameters(loaded: LoadedModel) -> int:
    from app.models.measure import weigh

    return weigh(loaded.model).parameters


def _speeds(loaded: LoadedModel, rounds: int) -> Iterator[Figure]:
    experts = next(module for module in loaded.model.modules() if isinstance(module, FourBitExperts))
    ours, theirs = alternate(lambda: _pass(experts, 1), lambda: _unpacking(experts, 1), rounds)
    yield Figure("experts of a layer, one token", "ms", ours, "unpack, then multiply", theirs, "≤ 0.25")
    ours, theirs = alternate(lambda: _pass(experts, PROMPT), lambda: _unpacking(experts, PROMPT), max(2, rounds // 3))
    yield Figure(f"experts of a layer, {PROMPT} tokens", "ms", ours, "unpack, then multiply", theirs, "≤ 1")
    per_token = [_step(loaded) for _ in range(rounds)]
    yield Figure(f"a token through {ALL_LAYERS} layers, extrapolated", "tokens/s", per_token, goal="≥ 3")


def _routed(experts: FourBitExperts, rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    chosen = torch.stack([torch.randperm(experts.num_experts)[:6] for _ in range(rows)])
    return torch.randn(rows, HIDDEN), chosen, torch.full((rows, 6), 1 / 6)


def _pass(experts: FourBitExperts, rows: int) -> float:
    given = _routed(experts, rows)
    begun = time.perf_counter()
    with torch.inference_mode():
        experts(*given)
    return (time.perf_counter() - begun) * 1e3


def _unpacking(experts: FourBitExperts, rows: int) -> float:
    """The same with every expert that is hit unpacked by bitsandbytes first."""
    kept: Any = experts._kernels  # noqa: SLF001  (the way without kernels is the peer)
    experts._kernels = {}  # noqa: SLF001
    try:
        return _pass(experts, rows)
    finally:
        experts._kernels = kept  # noqa: SLF001


def _step(loaded: LoadedModel) -> float:
    """Tokens per second if all layers but the dense one were repeated to the full depth."""
    from transformers import DynamicCache

    from app.engine.fast.step import FastStep

    assert loaded.kernels is not None, loaded.without_kernels  # noqa: S101
    step = FastStep(loaded.model, loaded.kernels)
    whole = _seconds(step, DynamicCache())
    layers: Any = loaded.model.model.layers
    loaded.model.model.layers = layers[: LAYERS - 1]
    try:
        less = _seconds(FastStep(loaded.model, loaded.kernels), DynamicCache())
    finally:
        loaded.model.model.layers = layers
    return 1 / (whole + (whole - less) * (ALL_LAYERS - LAYERS))


def _seconds(step: Any, kept: Any) -> float:
    """The shortest of some tokens."""
    step.begin(kept)
    times = []
    for token in range(TOKENS):
        begun = time.perf_counter()
        step(token + 100)
        times.append(time.perf_counter() - begun)
    step.end()
    return min(times)
