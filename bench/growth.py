"""How waiting and writing grow with the prompt, with what has been said, and with the model: ``python -m bench.growth``.

Writes the figures as JSON beside the plot that ``bench/README.md`` shows. llama.cpp stands beside them where it is installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from app.engine.engine import Engine
from app.engine.fast.proof import decoding_for
from app.engine.fast.step import FastStep
from app.models.loading import LoadedModel, load_model, unload
from app.settings import Settings
from bench import llama, prefill
from bench.parts import engine_with_model
from bench.report import machine

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
STEPS = 12
"""Tokens whose median is the time of one."""
SIZES: Mapping[str, Mapping[str, int]] = {
    "45M": {
        "hidden_size": 576,
        "num_hidden_layers": 8,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
    "135M": {
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
    "362M": {
        "hidden_size": 960,
        "num_hidden_layers": 32,
        "intermediate_size": 2560,
        "num_attention_heads": 15,
        "num_key_value_heads": 5,
    },
    "1.1B": {
        "hidden_size": 2048,
        "num_hidden_layers": 16,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
}
"""Random llamas of well-known shapes, with the built-in model's vocabulary."""
COLOURS = {"Fader": "C0", "llama.cpp": "C1", "model.generate": "C2"}
Series = dict[str, list[tuple[float, float]]]
"""Points by the name of their line."""


def main() -> None:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(prog="bench.growth", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images" / "growth.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with engine_with_model(home) as engine:
            assert engine.loaded is not None  # noqa: S101
            tokenizer = engine.loaded.tokenizer
            told = {"prompt": by_prompt(engine, asked.rounds), "history": by_history(engine, asked.rounds)}
        told["model"] = by_size(home, tokenizer, asked.rounds)
    asked.out.parent.mkdir(exist_ok=True)
    asked.out.write_text(
        json.dumps({"machine": machine(), **told}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    draw(told, asked.out.with_suffix(".svg"))


def by_prompt(engine: Engine, rounds: int) -> Series:
    """Seconds until a prompt of so many tokens is read, nothing of it kept."""
    loaded = engine.loaded
    assert loaded is not None  # noqa: S101
    chunk = Settings().prefill_chunk
    ways: dict[str, Callable[[int], float]] = {
        "Fader": lambda n: n / prefill.speed(loaded, prefill.prompt(n), chunk),
        **({"llama.cpp": lambda n: n / llama.prefill_speed(prefill.prompt(n)[0].tolist())} if llama.there() else {}),
    }
    longest = loaded.facts.context_length or max(LENGTHS)
    return _measure(ways, [n for n in LENGTHS if n < min(longest, llama.CONTEXT)], rounds)


def by_history(engine: Engine, rounds: int) -> Series:
    """Milliseconds for a token behind so many others."""
    loaded, step = engine.loaded, engine.held.beside.decoding.step
    assert loaded is not None  # noqa: S101
    ways: dict[str, Callable[[int], float]] = {
        "model.generate": lambda n: 1e3 * _library(loaded, n),
        **({"Fader": lambda n: 1e3 * _fast(loaded, step, n)} if step else {}),
        **({"llama.cpp": lambda n: 1e3 / llama.speed(prefill.prompt(n)[0].tolist(), STEPS)} if llama.there() else {}),
    }
    longest = loaded.facts.context_length or max(LENGTHS)
    return _measure(ways, [n for n in LENGTHS if n + STEPS < min(longest, llama.CONTEXT)], rounds)


def by_size(home: Path, tokenizer: Any, rounds: int) -> Series:
    """Milliseconds for a token of models of so many million parameters, NF4, behind 64 others."""
    found: Series = {"Fader": [], "model.generate": []}
    for name, shape in SIZES.items():
        millions = _millions(shape)
        loaded = load_model(str(_written(home / name, shape, tokenizer)), Settings(home=home, cache=home / "cache"))
        step = decoding_for(loaded).step
        if step:
            found["Fader"].append((millions, 1e3 * _median(lambda: _fast(loaded, step, 64), rounds)))  # noqa: B023
        found["model.generate"].append((millions, 1e3 * _median(lambda: _library(loaded, 64), rounds)))  # noqa: B023
        unload(loaded)
    return found


def _measure(ways: Mapping[str, Callable[[int], float]], lengths: Sequence[int], rounds: int) -> Series:
    """In turn, so that all of them meet the same machine."""
    return {name: [(n, _median(lambda: way(n), rounds)) for n in lengths] for name, way in ways.items()}  # noqa: B023


def _median(once: Callable[[], float], rounds: int) -> float:
    return statistics.median(once() for _ in range(rounds))


def _read(loaded: LoadedModel, length: int) -> DynamicCache:
    model: Any = loaded.model
    kept = DynamicCache(config=model.config)
    ids = prefill.prompt(length)
    with torch.inference_mode():
        for start in range(0, length, 512):
            model(ids[:, start : start + 512], cache=kept, logits_to_keep=1)
    return kept


def _times(step: Callable[[int], object]) -> float:
    def one(token: int) -> float:
        begun = time.perf_counter()
        step(token)
        return time.perf_counter() - begun

    return statistics.median(one(token) for token in range(1, STEPS))


def _fast(loaded: LoadedModel, step: FastStep, length: int) -> float:
    step.begin(_read(loaded, length))
    try:
        return _times(step)
    finally:
        step.end()


def _library(loaded: LoadedModel, length: int) -> float:
    model: Any = loaded.model
    kept = _read(loaded, length)
    with torch.inference_mode():
        return _times(lambda token: model(torch.tensor([[token]]), cache=kept))


def _config(shape: Mapping[str, int]) -> LlamaConfig:
    more = {"vocab_size": 49152, "tie_word_embeddings": True, "max_position_embeddings": 8192}
    given: dict[str, Any] = {**shape, **more}
    return LlamaConfig(**given)


def _millions(shape: Mapping[str, int]) -> float:
    with torch.device("meta"):
        return sum(weight.numel() for weight in LlamaForCausalLM(_config(shape)).parameters()) / 1e6


def _written(folder: Path, shape: Mapping[str, int], tokenizer: Any) -> Path:
    """A checkpoint in bfloat16 with the built-in model's tokenizer."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(_config(shape)).bfloat16()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def draw(told: Mapping[str, Series], target: Path) -> None:
    """Three plots side by side."""
    import matplotlib.pyplot as plt

    titles = {
        "prompt": ("Reading a prompt", "tokens of the prompt", "seconds"),
        "history": ("Writing behind a long text", "tokens before", "ms per token"),
        "model": ("Writing with a larger model (NF4)", "million parameters", "ms per token"),
    }
    figure, places = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for place, (part, (title, x, y)) in zip(places, titles.items(), strict=True):
        for name, points in sorted(told[part].items()):
            place.plot(*zip(*points, strict=True), marker="o", label=name, color=COLOURS[name])
        place.set(title=title, xlabel=x, ylabel=y, ylim=(0, None))
        place.grid(alpha=0.3)
        place.legend(frameon=False)
    figure.savefig(target)


if __name__ == "__main__":
    main()
