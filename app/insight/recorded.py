"""A finished reply with its trace, ready to be looked at; unpacked once and kept while somebody looks.

What is asked of it repeatedly (sliders on a reply) must not unpack the trace each time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from app.engine.trace import Trace
from app.errors import RefusedInput
from app.insight.effects import MOVABLE, ids_before
from app.insight.what_if import Prediction, Setting, predict
from app.parameters.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.conversation import Json, Run
    from app.store import ConversationStore

KEPT = 8
"""Replies whose traces stay unpacked."""


def elsewhere(run: Run) -> str:
    """Why a reply that came from a server can't be computed with here; empty for one that was written on this machine."""
    host = run.model_fingerprint.get("remote")
    if not host:
        return ""
    return (
        f"This reply came from {host}, and so did its probabilities, which the server gives before or after its settings without saying "
        "so. Replay, other draws, what-if and the model’s inside need a model on this machine."
    )


@dataclass(frozen=True, eq=False)
class Recorded:
    """A reply's run and its trace, None when none was recorded. ``taken_over``: output tokens in front that have no trace."""

    run: Run
    trace: Trace | None

    @property
    def elsewhere(self) -> str:
        """Why nothing can be computed with it here, for a reply that came from a server."""
        return elsewhere(self.run)

    @property
    def taken_over(self) -> int:
        """Tokens that the reply began with (continued, or branched from another reply)."""
        ids = self.run.output_ids
        return len(ids) - (self.run.stats.new_tokens if self.trace is None else len(self.trace))

    def traced(self) -> Trace:
        """The trace, to compute with. Raises RefusedInput with the reason why there is none, or why it doesn't serve."""
        if self.elsewhere:
            raise RefusedInput(self.elsewhere)
        if self.trace is None:
            raise RefusedInput(self.missing)
        return self.trace

    @property
    def missing(self) -> str:
        """Why there is no trace."""
        effective = self.run.effective
        if self.elsewhere and effective.get("trace_top_k"):
            return "The server gave no probabilities with this reply’s tokens."
        if not self.run.output_ids and not self.elsewhere:
            return "This reply has no tokens."
        if not effective.get("trace_top_k"):
            return "No trace was recorded for this reply: trace_top_k was 0."
        if (effective.get("num_beams") or 1) > 1:
            return "Beam search weighs whole sequences, not single tokens: it leaves no trace of choices."
        return "No trace was recorded for this reply: it was written by assisted generation or by an earlier Fader."

    def what_if(self, changes: Mapping[str, Json]) -> Prediction:
        """What other settings would have chosen. None puts a parameter off. Raises RefusedInput, BadParameter."""
        return predict(self.traced(), Setting.of(self.run.effective), self.setting(changes), ids_before(self.run))

    def setting(self, changes: Mapping[str, Json]) -> Setting:
        """The reply's settings with these changes; sampling parameters switch sampling on, as they do in a request."""
        unknown = set(changes) - MOVABLE
        if unknown:
            raise RefusedInput(f"{', '.join(sorted(unknown))} can't be moved on a finished reply.")
        exact = validate({name: value for name, value in changes.items() if value is not None})
        off = {name: getattr(Setting(), name) for name, value in changes.items() if value is None}
        sampled = {"do_sample": True} if set(changes) - {"repetition_penalty"} else {}
        return Setting.of(self.run.effective).moved({**sampled, **exact, **off})

    def request(self, changes: Mapping[str, Json], base: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """The parameters that repeat this reply with other settings: as they were asked for (or ``base`` instead), the changes, and the
        same seed."""
        # Pinned, because what is unset could be resolved otherwise once more is set beside it.
        pinned = {name: self.run.effective.get(name) for name in Setting.__slots__}
        off = {name: getattr(Setting(), name) for name in MOVABLE if name in changes and changes[name] is None}
        moved = (MOVABLE & set(changes)) - {"repetition_penalty"}
        sampled = {"do_sample": True} if moved and changes.get("temperature") != 0 else {}
        seeded = {"seed": changes.get("seed", self.run.seed)}
        asked = {**({**self.run.requested, **pinned} if base is None else base), **sampled, **changes, **off, **seeded}
        return {name: value for name, value in asked.items() if value is not None and name != "num_return_sequences"}


@dataclass
class Recordings:
    """Finished replies of a store by the id of their run; may be asked from any thread."""

    store: ConversationStore
    _kept: OrderedDict[str, Recorded] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, run_id: str) -> Recorded:
        """One reply. Raises NotFound, RefusedInput for one still being written, FaderError for a damaged trace."""
        with self._lock:
            if run_id in self._kept:
                self._kept.move_to_end(run_id)
                return self._kept[run_id]
        run = self.store.run(run_id)
        if not run.status.final:
            raise RefusedInput("This reply is still being written.")
        packed = self.store.trace(run_id)
        recorded = Recorded(run, Trace.unpack(packed) if packed else None)
        with self._lock:
            self._kept[run_id] = recorded
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return recorded
