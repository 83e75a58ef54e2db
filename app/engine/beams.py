"""Beam search's end: only beams that obey every setting are replies."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.sampling import NOTHING_LEFT
from app.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

IMPOSSIBLE = -1e8
"""The library marks places without a finished beam by -1e9, and a forbidden token leaves -inf; no real total comes near."""


@dataclass
class BeamTotals:
    """Listens to the scores of the beams that have been finished, best first."""

    totals: list[float] = field(default_factory=list)

    @contextmanager
    def listen(self, model: Any) -> Iterator[None]:
        """While the library's search runs on ``model``."""
        stock = model._update_finished_beams  # noqa: SLF001  (the totals are returned only together with all scores of all steps)

        def noting(*args: Any, **kwargs: Any) -> Any:
            found = stock(*args, **kwargs)
            self.totals = found[1][0].tolist()
            return found

        model._update_finished_beams = noting  # noqa: SLF001
        try:
            yield
        finally:
            del model._update_finished_beams  # noqa: SLF001

    def possible(self, sequences: Any) -> int:
        """How many of the returned sequences are replies. Raises RunFailed when none is."""
        count = sum(total > IMPOSSIBLE for total in self.totals[: len(sequences)])
        if not count:
            raise RunFailed(f"In every beam {NOTHING_LEFT}")
        return count
