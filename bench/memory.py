"""What a process takes that has answered: Fader's engine with a trace, and transformers with bitsandbytes on the same weights in NF4.

``python -m bench.memory fader|stock FOLDER`` is one such process; it prints MiB resident at its end and at its peak. Each side computes one
reply behind a prompt of PROMPT tokens. The page isn't part of either (see ``starting`` for the server).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.report import Figure

PROMPT = 512
REPLY = 128
LIMIT = "≤ 1.2"


def figures(home: Path, rounds: int, tokens: int) -> Iterator[Figure]:
    """Resident and peak memory of both."""
    del tokens
    folder = _stock_checkpoint(home)
    measured = [{side: _process(side, home, folder) for side in ("fader", "stock")} for _ in range(min(3, rounds))]
    for what in ("resident", "peak"):
        ours, theirs = ([one[side][what] for one in measured] for side in ("fader", "stock"))
        yield Figure(f"{what} memory of an answer", "MiB", ours, "transformers + bitsandbytes", theirs, LIMIT)


def _stock_checkpoint(home: Path) -> Path:
    """The built-in model as a plain NF4 checkpoint, which transformers loads by itself."""
    from app.models.loading import prepare_model
    from app.models.options import LoadOptions, Quantization
    from app.settings import Settings

    return prepare_model("builtin", Settings(home=home), options=LoadOptions(Quantization("nf4")))


def _process(side: str, home: Path, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.memory", side, str(folder)]
    done = subprocess.run(
        command, env={**os.environ, "FADER_HOME": str(home)}, stdout=subprocess.PIPE, check=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def fader() -> None:
    """Answer with the engine."""
    from app.settings import Settings
    from bench.parts import engine_with_model, exactly, reply, said

    with engine_with_model(Settings().home) as engine:
        reply(engine, said("word " * PROMPT), {**exactly(REPLY), "trace_top_k": 20})
        _tell()


def stock(folder: Path) -> None:
    """Answer with the library's ``generate``."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([tokenizer("word " * PROMPT)["input_ids"]])
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=REPLY, min_new_tokens=REPLY)
    _tell()


def _tell() -> None:
    print(json.dumps({"resident": psutil.Process().memory_info().rss / 2**20, "peak": _peak_bytes() / 2**20}))


def _peak_bytes() -> int:
    """The most this program had resident. Where it can be asked not by ``ru_maxrss``, which begins with what the parent process had."""
    if sys.platform == "linux":
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    fader() if sys.argv[1] == "fader" else stock(Path(sys.argv[2]))
