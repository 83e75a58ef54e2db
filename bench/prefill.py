"""Tokens of a prompt per second, in the engine's chunks, against llama.cpp and against the same model without 4-bit weights."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from app.engine.engine import Engine
from app.models.builtin import builtin_source
from app.models.loading import LoadedModel, load_model, unload
from app.models.options import LoadOptions, Quantization
from app.native.weights import dense_dtype
from app.settings import Settings
from bench import llama
from bench.parts import engine_with_model
from bench.report import Figure, alternate

LENGTHS = (128, 512, 2000)


def figures(home: Path, rounds: int, tokens: int) -> Iterator[Figure]:
    """For each length of prompt, against each peer that is there."""
    del tokens
    settings = Settings(home=home)
    with engine_with_model(home) as engine:
        assert engine.loaded is not None  # noqa: S101
        ours, chunk = engine.loaded, settings.prefill_chunk
        for length in LENGTHS:
            if llama.there():
                yield _against_llama(ours, chunk, length, rounds)
        yield from _against_dense(engine, settings, rounds)


def prompt(length: int) -> torch.Tensor:
    """Token ids [1, length]."""
    return (torch.arange(length) * 7919 % 40000 + 100)[None]


def speed(loaded: LoadedModel, ids: torch.Tensor, chunk: int) -> float:
    """Tokens per second of reading ``ids`` in chunks, logits of the last position included."""
    from transformers import DynamicCache

    model: Any = loaded.model
    kept = DynamicCache(config=model.config)
    begun = time.perf_counter()
    with torch.inference_mode():
        for start in range(0, ids.shape[1], chunk):
            model(ids[:, start : start + chunk], cache=kept, logits_to_keep=1)
    return float(ids.shape[1] / (time.perf_counter() - begun))


def _against_llama(ours: LoadedModel, chunk: int, length: int, rounds: int) -> Figure:
    ids = prompt(length)
    mine, theirs = alternate(
        lambda: speed(ours, ids, chunk), lambda: llama.prefill_speed(ids[0].tolist()), max(2, rounds // 2)
    )
    return Figure(f"prompt of {length:,}", "tokens/s", mine, "llama.cpp", theirs)


def _against_dense(engine: Engine, settings: Settings, rounds: int) -> Iterator[Figure]:
    """The same weights unpacked, in the dtype that this processor multiplies fastest."""
    dtype: Any = str(dense_dtype()).removeprefix("torch.")
    dense = load_model(builtin_source().name, settings, options=LoadOptions(Quantization("none", compute_dtype=dtype)))
    assert engine.loaded is not None  # noqa: S101
    ours = engine.loaded
    for length in LENGTHS[:2]:
        ids = prompt(length)
        mine, theirs = alternate(
            lambda ids=ids: speed(ours, ids, settings.prefill_chunk),  # type: ignore[misc]
            lambda ids=ids: speed(dense, ids, settings.prefill_chunk),  # type: ignore[misc]
            max(2, rounds // 2),
        )
        yield Figure(f"prompt of {length:,}", "tokens/s", mine, f"dense {dtype}", theirs, "≥ 0.8")
    unload(dense)
