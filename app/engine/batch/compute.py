"""A batch of replies to one prompt: it is read once, then each forward computes the next token of every reply that goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.engine.batch.steps import FastTogether, LibraryTogether
from app.engine.execute import attempt
from app.engine.prefill import Prefill
from app.engine.run import AllSet
from app.engine.threads import working
from app.models.quiet import hushed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.batch.place import Places
    from app.engine.batch.row import Row
    from app.engine.batch.steps import Together
    from app.engine.events import Ended


@dataclass(frozen=True, slots=True)
class _Everybody:
    """Tells every row how far the prompt has been read."""

    rows: Sequence[Row]

    def prefill(self, done: int, total: int, reused: int) -> None:
        for row in self.rows:
            assert row.streamer is not None  # noqa: S101
            row.streamer.prefill(done, total, reused)


@dataclass
class Batch:
    """Rows that are ready and have the same prompt; one that ends leaves. ``repeated``: the places of an earlier run, for the single row
    that repeats it."""

    rows: list[Row]
    repeated: Places = ()

    def compute(self) -> None:
        """All of it; every row's run has its end then."""
        import torch

        try:
            with torch.no_grad(), hushed:
                self._compute()
        except Exception as error:  # noqa: BLE001  (whatever the model raises ends these runs and nothing else)
            _end_all(self.rows, error)

    def _compute(self) -> None:
        import torch

        caught, model = self.rows[0].caught, self._model
        prefill = Prefill(self.rows[0].blocks, AllSet(row.run for row in self.rows), _Everybody(self.rows))
        outputs = prefill.read(model, caught.input_ids, caught.prepared.config, caught.kwargs)
        logits = outputs.logits[0, -1].to(dtype=torch.float32, device=caught.input_ids.device)
        with working(1):
            self.rows = [row for row in self.rows if row.take(logits.clone())]
        if not self.rows:
            return
        steps = self._steps(outputs)
        for row in self.rows:
            row.told = steps.told
        try:
            with model._optimize_model_for_decode(), working(1):  # noqa: SLF001  (as in the loop for one reply)
                (self._repeat if self.repeated else self._decode)(steps)
        finally:
            steps.end()

    def _steps(self, outputs: Any) -> Together:
        lead, caught = self.rows[0], self.rows[0].caught
        if lead.fast:
            return FastTogether.behind(lead.fast, caught.kwargs["cache"])
        return LibraryTogether.behind(self._model, outputs, caught.kwargs, caught.input_ids)

    @property
    def _model(self) -> Any:
        return self.rows[0].loaded.model

    def _decode(self, steps: Together) -> None:
        steps.keep([0] * len(self.rows))
        while self.rows:
            for place, row in enumerate(self.rows if not steps.exact else ()):
                row.stand(len(self.rows), place)
            logits = steps.next([row.token for row in self.rows])
            staying = [place for place, row in enumerate(self.rows) if row.take(logits[place])]
            if len(staying) < len(self.rows):
                self.rows = [self.rows[place] for place in staying]
                steps.keep(staying)

    def _repeat(self, steps: Together) -> None:
        """The row where it stood, with copies of itself at all other places."""
        (row,), to_come, now = self.rows, list(self.repeated), self.repeated[0]
        at = 0
        while self.rows:
            if to_come and to_come[0].step <= row.length:
                now = to_come.pop(0)
                steps.keep([at] * now.rows)
                at = now.place
            row.stand(now.rows, now.place)
            logits = steps.next([row.token] * now.rows)
            if not row.take(logits[now.place]):
                self.rows = []


def _end_all(rows: Sequence[Row], error: Exception) -> None:
    def fail() -> Ended:
        raise error

    for row in rows:
        if row.run.ended is None:
            attempt(row, fail)
