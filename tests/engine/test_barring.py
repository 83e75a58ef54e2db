"""Tokens are barred exactly where the library's own processors bar them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

from app.engine.exact import exact

ENDS = torch.tensor([3, 900])
MAKERS: dict[str, Callable[[], Any]] = {
    "min_length": lambda: MinLengthLogitsProcessor(6, ENDS),
    "min_new_tokens": lambda: MinNewTokensLengthLogitsProcessor(4, 2, ENDS),
    "suppress_tokens": lambda: SuppressTokensLogitsProcessor([0, 7, 999, 5_000]),
    "begin_suppress_tokens": lambda: SuppressTokensAtBeginLogitsProcessor([0, 7, 5_000], 5),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("length", range(4, 9))
def test_the_same_tokens_are_barred_at_every_length(name: str, length: int) -> None:
    library = MAKERS[name]()
    (ours,) = exact(LogitsProcessorList([library]))
    ids, scores = torch.zeros((2, length), dtype=torch.long), torch.randn(2, 1_000)
    before = scores.clone()
    expected = library(ids, scores)
    found: Any = ours(ids, scores)
    assert torch.equal(found, expected)
    assert torch.equal(scores, before)
    assert type(ours) is not type(library)
    assert type(ours).__name__ == type(library).__name__, "a trace names it"
