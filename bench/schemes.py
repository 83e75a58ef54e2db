"""What each 4-bit scheme costs in quality: perplexity of the built-in model on a fixed English text, and its tokens per second."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import Any, get_args

import torch

from app.models.loading import LoadedModel, load_model, unload
from app.models.options import LoadOptions, Quantization, Scheme
from app.settings import Settings
from bench.report import Figure

TEXT = (
    "The tide had gone out before dawn, and the harbour lay open like a book that nobody was reading. Two boats leaned against the wall. "
    "A woman came down the steps with a basket, counted the ropes, and sat where the stone was dry. She had learned as a child that the "
    "water comes back sooner than one thinks, and that a rope left loose is a boat lost by evening. When the first gulls arrived she was "
    "already mending the net. The holes were small this time. In spring the crabs tear it, in autumn the storms do, and in between there "
    "is always some boy who wants to know whether it will hold a man. It does, if it is wet. Her father had measured the harbour with a "
    "line and a lead weight, and written the depths on the back of a calendar. The calendar was thirty years old. The depths had changed "
    "since then, because the river brings sand and the council no longer pays for the dredger, but the rocks were where he had drawn them. "
    "At noon the bus from the city stopped above the steps, and a man with a camera asked her what the name of the place was. "
    "She told him. He wrote it down, looked at mud, and asked when the sea would be there. In three hours, she said, and went on."
)


def figures(home: Path, rounds: int, tokens: int) -> Iterator[Figure]:
    """One figure a scheme; the weights as the file has them, unpacked, are the peer."""
    del rounds, tokens
    settings = Settings(home=home)
    found: dict[Scheme, float] = {}
    for scheme in (one for one in get_args(Scheme) if one != "auto"):
        dtype: Any = "float32" if scheme == "none" else "bfloat16"
        loaded = load_model("builtin", settings, options=LoadOptions(Quantization(scheme, compute_dtype=dtype)))
        found[scheme] = perplexity(loaded)
        unload(loaded)
    exact = found.pop("none")
    for scheme, value in found.items():
        yield Figure(f"perplexity in {scheme}", "", [value], "weights of the file, unpacked", [exact])


def perplexity(loaded: LoadedModel) -> float:
    """Of the fixed text, read at once: exp of the mean negative log-probability of its tokens but the first."""
    model: Any = loaded.model
    ids = torch.tensor([loaded.tokenizer(TEXT)["input_ids"]])
    with torch.inference_mode():
        said = model(ids).logits[0, :-1].float().log_softmax(-1)
    return exp(-float(said.gather(1, ids[0, 1:, None]).mean()))
