"""Which messages of a branch go into the prompt when not all of them fit: pure arithmetic over token counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import RefusedInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.conversation import Message

KEPT_FIRST = 2
"""Messages kept at the start by "keep_first": the opening question and its answer."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The messages to send, in order, and the ids of those left out."""

    kept: tuple[Message, ...]
    omitted: tuple[str, ...]


def fit(messages: Sequence[Message], costs: Sequence[int], room: int, policy: str) -> Fitted:
    """Choose messages whose ``costs`` (tokens) sum to at most ``room``; the last message is always kept.

    Policies: ``stop`` raises RefusedInput when anything would be left out; ``drop_oldest`` leaves out from the start;
    ``keep_first`` keeps the first exchange and leaves out what follows it; ``drop_middle`` leaves out from the middle outwards.
    """
    order = _removal_order(len(messages), policy)
    out: set[int] = set()
    total = sum(costs)
    for index in order:
        if total <= room:
            break
        out.add(index)
        total -= costs[index]
    if out and policy == "stop":
        sentence = (
            "The conversation no longer fits into the model's context, and the context policy is “stop”. "
            "Choose another policy, start a new conversation, or load a model with a longer context."
        )
        raise RefusedInput(sentence)
    kept = tuple(m for i, m in enumerate(messages) if i not in out)
    return Fitted(kept, tuple(m.id for i, m in enumerate(messages) if i in out))


def _removal_order(count: int, policy: str) -> list[int]:
    """Indices in the order in which they are given up; the last message is never among them."""
    candidates = list(range(count - 1))
    if policy == "keep_first":
        return candidates[KEPT_FIRST:] + candidates[:KEPT_FIRST][::-1]
    if policy == "drop_middle":
        middle = (count - 2) / 2
        return sorted(candidates, key=lambda i: (abs(i - middle), i))
    return candidates
