"""How evenly a reply used the experts of each layer: shares of the choices, and figures that sum them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from app.insight.routing import Routing

EXPLAINED = (
    "Balance is the entropy of a layer’s shares divided by the greatest possible: 1 when every expert got the same number of tokens, "
    "0 when one got all. The variation is the standard deviation of the shares divided by their mean: 0 is even."
)
BIASED = (
    "The router’s own scores would have chosen otherwise for {share} of the choices: a correction bias (or a limit to groups of experts) "
    "changes which experts are taken, never how much each counts."
)


@dataclass(frozen=True, slots=True)
class LayerLoad:
    """One layer. ``entropy``: normalized to 0…1; ``variation``: coefficient of variation; ``unused``: experts without a token;
    ``top`` and ``top_share``: the busiest expert and its share of the choices; ``overruled``: share of the choices that are not among
    the best by the router's own scores, None where these aren't known."""

    layer: int
    entropy: float
    variation: float
    unused: int
    top: int
    top_share: float
    overruled: float | None


def counts(routing: Routing) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How many tokens each expert of each layer got: int64 [layers, experts]."""
    layers, experts = len(routing.layers), routing.experts
    taken = routing.choice.transpose(1, 0, 2).reshape(layers, -1)
    rows = [np.bincount(row[row >= 0], minlength=experts) for row in taken]
    return np.stack(rows).astype(np.int64)


def loads(routing: Routing) -> tuple[LayerLoad, ...]:
    """The figures of every layer."""
    return tuple(_load(routing, index, row) for index, row in enumerate(counts(routing)))


def _load(routing: Routing, index: int, row: np.ndarray[Any, np.dtype[np.int64]]) -> LayerLoad:
    shares = row / max(1, row.sum())
    used = shares[shares > 0]
    entropy = float(-(used * np.log(used)).sum() / np.log(routing.experts)) if routing.experts > 1 else 1.0
    return LayerLoad(
        layer=routing.layers[index],
        entropy=min(1.0, max(0.0, entropy)),
        variation=float(row.std() / max(row.mean(), 1e-12)),
        unused=int((row == 0).sum()),
        top=int(row.argmax()),
        top_share=float(shares.max()),
        overruled=_overruled(routing, index),
    )


def _overruled(routing: Routing, index: int | None = None) -> float | None:
    place = routing.place if index is None else routing.place[:, index]
    known = place[place >= 0]
    return float((known >= routing.per_token).mean()) if known.size else None


def overall(loads_: tuple[LayerLoad, ...], routing: Routing) -> dict[str, float | None]:
    """Means over the layers, for one sentence."""
    return {
        "entropy": float(np.mean([load.entropy for load in loads_])),
        "variation": float(np.mean([load.variation for load in loads_])),
        "overruled": _overruled(routing),
    }


def tokens_of(routing: Routing, layer: int, expert: int) -> list[int]:
    """The reply's tokens (from 0) that the ``layer``-th layer with experts sent to ``expert``."""
    found: list[int] = np.flatnonzero((routing.choice[:, layer] == expert).any(axis=-1)).tolist()
    return found
