"""A trace tells the truth about each choice, survives packing, and changes nothing about the text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.engine.ranking import largest
from app.engine.trace import NOT_REMOVED, Trace
from app.engine.tracer import Tracer
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


@given(
    values=st.lists(st.sampled_from([-np.inf, -2.0, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=700),
    count=st.integers(1, 30),
)
def test_the_largest_are_found_whatever_ties(values: list[float], count: int) -> None:
    expected = sorted(range(len(values)), key=lambda place: (-values[place], place))[:count]
    assert largest(np.array(values, np.float32), count).tolist() == expected


def test_what_the_model_itself_masks_counts_for_nothing() -> None:
    logits = torch.full((1, VOCABULARY), -torch.inf)
    logits[0, 7], logits[0, 9] = 1.0, 1.0
    tracer = Tracer(4)
    tracer.begin(logits)
    tracer.stage("TemperatureLogitsWarper", logits / 0.5)
    tracer.chosen(logits / 0.5, [9], [0.7])
    trace = tracer.trace(0, 1)
    assert trace is not None
    assert trace.entropy[0] == pytest.approx(np.log(2))
    assert trace.left[0].tolist() == [2]
    assert trace.raw_probability[0] == pytest.approx(0.5)


def test_numbers_that_are_none_are_recorded_as_such() -> None:
    logits = torch.full((1, VOCABULARY), torch.nan)
    tracer = Tracer(4)
    tracer.begin(logits)
    tracer.stage("TemperatureLogitsWarper", logits)
    tracer.chosen(logits, [0], [0.1])
    trace = tracer.trace(0, 1)
    assert trace is not None
    assert np.isnan([trace.logsumexp[0], trace.entropy[0]]).all()
    assert trace.left[0].tolist() == [0]
