"""A trace tells the truth about each choice, survives packing, and changes nothing about the text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from app.engine.trace import NOT_REMOVED, Trace, Tracer
from app.errors import FaderError

VOCABULARY = 50


def record(temperature: float = 0.5, top_k: int = 3, k: int = 5) -> tuple[Trace, torch.Tensor]:
    """One step by hand: temperature, then top_k; the second most probable token is chosen."""
    logits = torch.randn(1, VOCABULARY, generator=torch.Generator().manual_seed(0))
    tracer = Tracer(k)
    tracer.begin(logits)
    scores = logits / temperature
    tracer.stage("TemperatureLogitsWarper", scores)
    cut = scores.topk(top_k).values[:, -1:]
    scores = scores.masked_fill(scores < cut, -torch.inf)
    tracer.stage("TopKLogitsWarper", scores)
    second = int(logits[0].topk(2).indices[1])
    tracer.chosen(scores, [second], [0.25])
    trace = tracer.trace(0, 1)
    assert trace is not None
    return trace, logits[0]


def test_every_figure_is_what_the_distribution_says() -> None:
    trace, logits = record()
    probabilities = logits.softmax(-1)
    assert trace.ids[0].tolist() == logits.topk(5).indices.tolist()
    assert trace.logsumexp[0] == pytest.approx(float(logits.logsumexp(-1)))
    assert trace.entropy[0] == pytest.approx(float(-(probabilities * probabilities.log()).sum()), rel=1e-5)
    assert trace.rank[0] == 1
    assert trace.raw_probability[0] == pytest.approx(float(probabilities.topk(2).values[1]), rel=1e-5)
    kept = (logits / 0.5).topk(3).values.softmax(-1)
    assert trace.processed_probability[0] == pytest.approx(float(kept[1]), rel=1e-5)
    assert trace.left[0].tolist() == [VOCABULARY, 3]
    assert trace.removed_by[0].tolist() == [NOT_REMOVED] * 3 + [1, 1]
    assert np.isneginf(trace.processed[0, 3:]).all()
    tempered = (logits / 0.5).softmax(-1).sort(descending=True).values
    assert trace.removed_mass(1)[0] == pytest.approx(float(tempered[3:].sum()), rel=1e-4)
    assert trace.draws[0] == 0.25


def test_packing_keeps_every_bit() -> None:
    trace, _ = record()
    again = Trace.unpack(trace.pack())
    assert again.stages == trace.stages
    assert again.vocabulary == VOCABULARY
    for name in ("ids", "raw", "processed", "removed_by", "left", "draws", "chosen_raw"):
        assert np.array_equal(getattr(again, name), getattr(trace, name))


@pytest.mark.parametrize("data", [b"", b"nonsense", b"PK\x03\x04broken"])
def test_a_damaged_trace_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(FaderError, match="can't be read"):
        Trace.unpack(data)


def test_a_greedy_step_without_stages_has_no_draw() -> None:
    tracer = Tracer(4)
    logits = torch.randn(1, VOCABULARY)
    tracer.begin(logits)
    tracer.chosen(logits, [int(logits.argmax())], [])
    trace = tracer.trace(0, 1)
    assert trace is not None
    assert np.isnan(trace.draws[0])
    assert trace.left.shape == (1, 0)
    assert trace.processed_probability[0] == pytest.approx(trace.raw_probability[0])
