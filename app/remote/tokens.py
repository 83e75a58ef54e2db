"""Probabilities that a server gives with its tokens, as a trace like that of a reply made here.

A server tells tokens by their text, not by ids that mean anything here: each text gets a number of its own in this reply, and the trace
carries the texts along. Only the most probable tokens are known, as log-probabilities, before or after the server's own settings: it
doesn't say. The entropy is that of the known ones with the rest taken as one, so a lower bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from app.engine.trace import NOT_REMOVED, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def trace_of(entries: Sequence[Mapping[str, Any]]) -> Trace | None:
    """A trace of what the interface calls ``logprobs.content``: token, bytes, logprob and top_logprobs of each; None of nothing."""
    if not entries:
        return None
    numbers: dict[bytes, int] = {}
    rows = [_candidates(entry) for entry in entries]
    k = max(1, min(len(row) for row in rows))
    ids = np.array([[_number(numbers, candidate) for candidate in row[:k]] for row in rows], np.int32)
    raw = np.array([[float(candidate["logprob"]) for candidate in row[:k]] for row in rows], np.float32)
    chosen = np.array([_number(numbers, entry) for entry in entries], np.int32)
    taken = np.array([float(entry["logprob"]) for entry in entries], np.float32)
    return _trace(tuple(numbers), ids, raw, chosen, taken)


def _candidates(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The most probable tokens at one place, by falling probability; the chosen one alone where there are no others."""
    return sorted(entry.get("top_logprobs") or [entry], key=lambda candidate: -float(candidate["logprob"]))


def _number(numbers: dict[bytes, int], token: Mapping[str, Any]) -> int:
    raw = token.get("bytes")
    return numbers.setdefault(str(token["token"]).encode() if raw is None else bytes(raw), len(numbers))


def _trace(
    texts: tuple[bytes, ...],
    ids: NDArray[np.int32],
    raw: NDArray[np.float32],
    chosen: NDArray[np.int32],
    taken: NDArray[np.float32],
) -> Trace:
    n = len(chosen)
    zeros, none = np.zeros(n, np.float32), np.zeros((n, 0), np.float32)
    return Trace(
        stages=(),
        vocabulary=0,
        ids=ids,
        raw=raw,
        processed=raw,
        removed_by=np.full(ids.shape, NOT_REMOVED, np.uint8),
        logsumexp=zeros,
        entropy=_entropy(raw),
        processed_logsumexp=zeros,
        chosen=chosen,
        chosen_raw=taken,
        chosen_processed=taken,
        rank=(raw > taken[:, None]).sum(axis=1).astype(np.int32),
        base=none,
        base_logsumexp=zeros,
        tail_max=raw[:, -1],
        left=np.zeros((n, 0), np.int32),
        stage_logsumexp=none,
        draws=np.full(n, np.nan),
        texts=texts,
    )


def _entropy(raw: NDArray[np.float32]) -> NDArray[np.float32]:
    """In nats, the unknown tokens taken as one: a lower bound."""
    chances = np.exp(raw.astype(np.float64))
    rest = np.clip(1.0 - chances.sum(axis=1, keepdims=True), 0.0, 1.0)
    both = np.concatenate([chances, rest], axis=1)
    logs = np.log(np.where(both > 0, both, 1.0))
    entropy: NDArray[np.float32] = -(both * logs).sum(axis=1).astype(np.float32)
    return entropy
