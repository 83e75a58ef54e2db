"""Chunks depend on the text alone, end with messages, and are neither tiny nor larger than a Stop should take."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache

from app.engine.cuts import Cuts
from app.engine.prefix_cache import PrefixCache
from app.models.loading import LoadedModel

END = 2
CUTS = Cuts(64, frozenset({END}))


def lengths(ids: list[int], cuts: Cuts = CUTS) -> list[int]:
    ends = cuts.of(ids)
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


@given(st.lists(st.integers(0, 5), max_size=400))
def test_a_chunk_is_large_enough_to_pay_and_small_enough_to_stop(ids: list[int]) -> None:
    assert all(16 <= length <= 64 for length in lengths(ids))


@given(st.lists(st.integers(0, 5), max_size=300), st.lists(st.integers(0, 5), max_size=100))
def test_what_follows_moves_no_cut(ids: list[int], more: list[int]) -> None:
    """A whole chunk stays one; a longer text only has more of them, or one that was read with its short tail before."""
    short, long = CUTS.of(ids), CUTS.of([*ids, *more])
    before = [end for end in long if end <= len(ids)]
    assert short == before or short == before[:-1] or before == short[:-1]


def test_a_chunk_ends_with_a_message_and_short_messages_share_one() -> None:
    assert lengths([*[7] * 39, END, *[7] * 20]) == [40]
    assert lengths(([7] * 9 + [END]) * 9) == [20, 20, 20, 20]


def test_a_long_message_is_cut_in_the_middle() -> None:
    assert lengths([7] * 150) == [64, 64]


def test_a_short_tail_is_read_with_the_chunk_before() -> None:
    ids = [7] * 39 + [END]
    assert CUTS.of([*ids, 7, 7, 7]) == []
    assert CUTS.of([*ids, 7, 7, 7, 7]) == [40]
    assert CUTS.of(ids) == [40]


def _read(loaded: LoadedModel, ids: list[int], blocks: PrefixCache) -> tuple[torch.Tensor, int]:
    from threading import Event

    from transformers import GenerationConfig

    from app.engine.decode import Unheard
    from app.engine.prefill import Prefill

    cache = DynamicCache(config=loaded.model.config)
    reused = blocks.known(ids[:-1])
    with torch.no_grad():
        out = Prefill(blocks, Event(), Unheard()).read(
            loaded.model,
            torch.tensor([ids]),
            GenerationConfig(),
            {"cache": cache, "use_cache": True, "attention_mask": torch.ones(1, len(ids), dtype=torch.long)},
        )
    return out.logits[0, -1], reused


@pytest.mark.parametrize("turns", [2, 3, 5])
def test_of_a_growing_conversation_only_the_latest_message_is_read_and_to_the_same_bits(
    tiny: LoadedModel, turns: int
) -> None:
    def message(number: int, length: int) -> list[int]:
        return [*((number * 31 + place * 7) % 290 + 5 for place in range(length)), END]

    kept = PrefixCache(CUTS, 2**28)
    ids: list[int] = []
    for turn in range(turns):
        ids += message(turn, 30 + 5 * turn)
        read, reused = _read(tiny, ids, kept)
        fresh, none = _read(tiny, ids, PrefixCache(CUTS, 2**28))
        assert none == 0
        assert torch.equal(read, fresh)
        if turn:
            assert len(ids) - reused <= 64 + len(message(turn, 30 + 5 * turn))
    assert reused > len(ids) // 3
