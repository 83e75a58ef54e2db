"""Cut-offs and draws, quick as they are, take the tokens that the library's rules and the definition of a draw name."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TopKLogitsWarper as LibrarysTopK
from transformers import TopPLogitsWarper as LibrarysTopP

from app.engine.exact import TopKLogitsWarper, TopPLogitsWarper, exact
from app.engine.sampling import pick

IDS = torch.zeros(1, 1, dtype=torch.long)
SEEDS = st.integers(0, 10_000)


def logits(seed: int, size: int = 1_000, *, ties: bool = False, excluded: int = 0) -> torch.Tensor:
    """Float32 [1, size]; with ``ties`` rounded as a 16-bit model rounds them; some at the beginning are -inf."""
    found = torch.randn(1, size, generator=torch.Generator().manual_seed(seed)) * 3
    found[:, :excluded] = -torch.inf
    return found.bfloat16().float() if ties else found


ROUNDING = 1e-12
"""Of a sum of a thousand chances in another order: a draw so near an edge may fall to either side."""


@given(seed=SEEDS, top_p=st.sampled_from([0.05, 0.3, 0.9, 0.95, 0.999]), excluded=st.sampled_from([0, 5, 990]))
def test_top_p_keeps_what_the_librarys_keeps(seed: int, top_p: float, excluded: int) -> None:
    scores = logits(seed, excluded=excluded)
    assert torch.equal(TopPLogitsWarper(top_p)(IDS, scores), LibrarysTopP(top_p)(IDS, scores))


@given(seed=SEEDS, top_p=st.sampled_from([0.05, 0.3, 0.9, 0.95, 0.999]))
def test_where_tokens_tie_at_the_edge_of_top_p_the_lower_ids_stay(seed: int, top_p: float) -> None:
    scores = logits(seed, ties=True)
    mine, others = TopPLogitsWarper(top_p)(IDS, scores)[0], LibrarysTopP(top_p)(IDS, scores)[0]
    kept = torch.isfinite(mine).nonzero()[:, 0].tolist()
    assert len(kept) == int(torch.isfinite(others).sum())
    assert sorted(scores[0, kept].tolist()) == sorted(others[torch.isfinite(others)].tolist())
    last = float(scores[0, kept].min())
    tied = (scores[0] == last).nonzero()[:, 0].tolist()
    assert [token for token in kept if scores[0, token] == last] == tied[: len([t for t in kept if t in tied])]


@given(seed=SEEDS, k=st.sampled_from([1, 3, 50, 999, 2_000]), ties=st.booleans())
def test_top_k_keeps_k_and_of_those_that_tie_the_lower_ids(seed: int, k: int, ties: bool) -> None:
    scores = logits(seed, ties=ties)
    kept = torch.isfinite(TopKLogitsWarper(k)(IDS, scores))[0].nonzero()[:, 0].tolist()
    order = sorted(range(1_000), key=lambda token: (-float(scores[0, token]), token))
    assert kept == sorted(order[:k])


@given(seed=SEEDS, draw=st.floats(0, 1, exclude_max=True), ties=st.booleans(), excluded=st.sampled_from([0, 700, 998]))
def test_a_draw_takes_the_first_token_at_which_the_sum_exceeds_it(
    seed: int, draw: float, ties: bool, excluded: int
) -> None:
    scores = logits(seed, ties=ties, excluded=excluded)[0]
    chances = scores.softmax(-1, dtype=torch.float64)
    order = sorted(range(1_000), key=lambda token: (-float(scores[token]), token))
    sums = chances[order].cumsum(0)
    chosen = pick(scores, draw)
    assert chances[chosen] > 0
    if float((sums - draw).abs().min()) > ROUNDING:
        place = int(torch.searchsorted(sums, torch.tensor(draw, dtype=torch.float64), right=True))
        assert chosen == order[place]


def test_not_numbers_are_left_for_the_check_that_names_them() -> None:
    assert TopPLogitsWarper(0.9)(IDS, torch.full((1, 300), torch.nan)).isnan().all()


@pytest.mark.parametrize("rows", [1, 3])
def test_each_row_is_cut_by_itself_and_the_input_stays(rows: int) -> None:
    scores = torch.cat([logits(seed) for seed in range(rows)])
    before = scores.clone()
    cut = exact([LibrarysTopK(20), LibrarysTopP(0.8)])(IDS.expand(rows, -1), scores)  # type: ignore[arg-type]
    assert torch.equal(scores, before)
    for row in range(rows):
        alone = exact([LibrarysTopK(20), LibrarysTopP(0.8)])(IDS, before[row : row + 1])  # type: ignore[arg-type]
        assert torch.equal(cut[row], alone[0])
