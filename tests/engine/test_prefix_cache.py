"""Reuse is exact: a prompt gives the same logits to the last bit whether its beginning was reused or read again."""

from __future__ import annotations

import torch
from transformers import DynamicCache

from app.conversation import RunStatus
from app.engine.cuts import Cuts
from app.engine.engine import Engine
from app.engine.prefix_cache import PrefixCache
from app.models.loading import LoadedModel
from tests.engine.conftest import OneModel, request_for

BLOCK = 16


def read(loaded: LoadedModel, ids: list[int], blocks: PrefixCache) -> tuple[torch.Tensor, int]:
    """Logits of the last token after a chunked prefill, and how many tokens were reused."""
    cache = DynamicCache(config=loaded.model.config)
    reused = blocks.restore(ids, cache)
    with torch.no_grad():
        for start in range(reused, len(ids), BLOCK):
            out = loaded.model(input_ids=torch.tensor([ids[start : start + BLOCK]]), cache=cache, use_cache=True)
    blocks.keep(ids, cache)
    return out.logits[0, -1], reused


def test_logits_are_bit_identical_with_and_without_reuse(tiny: LoadedModel) -> None:
    blocks = PrefixCache(Cuts(BLOCK), 2**20)
    first = [5 + i % 300 for i in range(3 * BLOCK + 5)]
    second = first[: 2 * BLOCK] + [7 + i % 200 for i in range(2 * BLOCK + 3)]
    fresh, none = read(tiny, second, PrefixCache(Cuts(BLOCK), 2**20))
    read(tiny, first, blocks)
    again, reused = read(tiny, second, blocks)
    assert (none, reused) == (0, 2 * BLOCK)
    assert torch.equal(fresh, again)


def test_the_last_token_is_always_read_even_when_everything_is_known(tiny: LoadedModel) -> None:
    blocks = PrefixCache(Cuts(BLOCK), 2**20)
    ids = list(range(5, 5 + 2 * BLOCK))
    read(tiny, ids, blocks)
    _, reused = read(tiny, ids, blocks)
    assert reused == BLOCK


def test_memory_is_bounded_and_the_least_recently_used_goes_first(tiny: LoadedModel) -> None:
    one_block = PrefixCache(Cuts(BLOCK), 2**30)
    read(tiny, list(range(5, 5 + BLOCK + 1)), one_block)
    size = one_block.used_bytes
    blocks = PrefixCache(Cuts(BLOCK), 3 * size)
    prompts = [[start, *range(10, 10 + BLOCK)] for start in (5, 6, 7)]
    for ids in prompts:
        read(tiny, ids, blocks)
    read(tiny, prompts[0], blocks)
    read(tiny, [8, *range(10, 10 + BLOCK)], blocks)
    assert blocks.used_bytes <= 3 * size
    assert read(tiny, prompts[0], blocks)[1] == BLOCK
    assert read(tiny, prompts[1], blocks)[1] == 0
    blocks.clear()
    assert blocks.used_bytes == 0


def test_the_same_seed_gives_the_same_text_with_a_warm_and_a_cold_cache(engine: Engine, models: OneModel) -> None:
    long = "one two three four five six seven eight nine ten " * 4
    asked = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 20, "seed": 3}
    cold = engine.submit(request_for(long, requested=asked)).result(60)
    warm = engine.submit(request_for(long, requested=asked)).result(60)
    assert cold.run.stats.reused_tokens == 0 < warm.run.stats.reused_tokens
    assert warm.run.output_ids == cold.run.output_ids
    assert engine.load("tiny").finished.wait(60)
    fresh = engine.submit(request_for(long, requested=asked)).result(60)
    assert (fresh.run.stats.reused_tokens, fresh.run.output_ids) == (0, cold.run.output_ids)
    assert fresh.run.status is RunStatus.DONE
