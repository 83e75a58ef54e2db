"""Torch's threads: all of them for a forward, one for everything between two forwards.

One row of logits is little work: handing parts of it to other threads takes longer than the work, many times so where these are busy (the
fast step's own threads are, for a moment after each step).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def working(threads: int) -> Iterator[None]:
    """Work with so many threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def all_threads() -> int:
    """How many torch works with now; to be asked before the small work begins."""
    import torch

    return torch.get_num_threads()
