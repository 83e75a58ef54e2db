"""Runs that were asked for together: those that can be are computed in one batch, the others one after the other behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.batch.compute import Batch
from app.engine.batch.fits import against
from app.engine.batch.row import Row
from app.engine.execute import execute
from app.engine.fast.replies import MOST
from app.models.budget import kv_bytes_per_token
from app.models.devices import free_bytes
from app.models.options import LoadOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.beside import Beside
    from app.engine.prefix_cache import PrefixCache
    from app.engine.run import LiveRun
    from app.models.loading import LoadedModel

SPARE_BYTES = 2**30
"""Memory that stays free beside what the replies' keys and values take."""


@dataclass(frozen=True)
class Together:
    """What runs that are computed together share."""

    loaded: LoadedModel
    blocks: PrefixCache
    beside: Beside

    def execute(self, runs: Sequence[LiveRun]) -> None:
        """Compute the runs, or repeat one that stood among others; every log gets its end."""
        exact = self.beside.decoding.exact_together
        fitting = [run for run in runs if against(run.request, self.loaded.facts, exact=exact) is None]
        if len(fitting) < 2 and not any(run.request.places for run in fitting):
            fitting = []
        waiting = fitting
        while waiting:
            waiting = waiting[self._some(waiting) :]
        self._alone([run for run in runs if run not in fitting])

    def _alone(self, runs: Sequence[LiveRun]) -> None:
        for run in runs:
            execute(run, self.loaded, self.blocks, self.beside)

    def _some(self, waiting: Sequence[LiveRun]) -> int:
        """Compute as many as there is memory for, and return how many these were."""
        lead = self._row(waiting[0])
        if not lead.ready():
            return 1
        if not lead.can_have_neighbours:
            self._alone(waiting)
            return len(waiting)
        count = rows_that_fit(lead)
        rows = [lead, *(row for row in map(self._row, waiting[1:count]) if row.ready())]
        while rows:
            same = [row for row in rows if row.prompt == rows[0].prompt]
            Batch(list(same), repeated=same[0].run.request.places).compute()
            rows = [row for row in rows if row not in same]
        return count

    def _row(self, run: LiveRun) -> Row:
        return Row(run, self.loaded, self.blocks, self.beside)


def rows_that_fit(row: Row) -> int:
    """How many replies like this one there is memory for, at least one and at most as many as the fast step takes."""
    model = row.loaded.model
    tokens = row.caught.prepared.config.max_length or row.loaded.facts.context_length
    needed = tokens * kv_bytes_per_token(model.config.get_text_config(), str(model.dtype).removeprefix("torch."))
    where = LoadOptions(device="cpu" if model.device.type == "cpu" else "auto")
    return min(MOST, max(1, (free_bytes(where) - SPARE_BYTES) // max(1, needed)))
