"""How well a model expected a text: perplexity, and the same in bits, from a recorded trace of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from app.engine.trace import Trace


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Over ``tokens`` scored tokens. ``perplexity``: exp of the mean negative log-probability (Jelinek et al. 1977): as unsure as
    between that many equally likely tokens. ``bits_per_token``: its binary logarithm. ``bits_per_byte``: all bits over the text's
    UTF-8 bytes, which can be compared between models with different tokenizers."""

    tokens: int
    perplexity: float
    bits_per_token: float
    bits_per_byte: float


def perplexity(trace: Trace, text: str) -> Perplexity:
    """Figures of a text's trace. ``text``: what the scored tokens spell."""
    surprises = trace.logsumexp.astype(np.float64) - trace.chosen_raw.astype(np.float64)  # nats
    mean = float(surprises.mean())
    bits = float(surprises.sum()) / log(2)
    size = max(1, len(text.encode("utf-8", "replace")))
    return Perplexity(len(trace), exp(min(mean, 700.0)), mean / log(2), bits / size)
