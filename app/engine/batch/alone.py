"""Holds replies that were computed beside others against single runs, whenever nobody else waits for the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from app.conversation import RunStatus
from app.engine.batch.claims import agreement
from app.engine.choosing import Follow
from app.engine.execute import Execution, attempt
from app.engine.run import LiveRun
from app.engine.score import MadeWay, Question
from app.errors import Cancelled, RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.conversation import Json
    from app.engine.batch.claims import Alone, Claim
    from app.engine.beside import Beside
    from app.engine.prefix_cache import PrefixCache
    from app.models.loading import LoadedModel


@dataclass
class _Retraced(Execution):
    """A single run that follows given tokens."""

    follow: Follow = field(default_factory=Follow)

    def _decoder(self, values: Mapping[str, Json]) -> Callable[..., Any]:
        made = super()._decoder(values)
        assert self.decoder is not None  # noqa: S101
        self.decoder.follow = self.follow
        return made


class _Hurry(Event):
    """Set as soon as the check is to stop, for good or because somebody waits."""

    def __init__(self, *reasons: Callable[[], bool]) -> None:
        super().__init__()
        self._reasons = reasons

    def is_set(self) -> bool:
        return any(reason() for reason in self._reasons)


@dataclass(eq=False, kw_only=True)
class AloneCheck(Question):
    """The check of some replies, one after the other, whenever nobody else waits. ``found`` grows by the ids of ``claims``; ``tell`` hears
    of each in the engine's thread. ``pressed`` says whether somebody waits. ``left_out``: replies of a model that isn't there any more."""

    makes_way = True
    claims: Mapping[str, Claim]
    tell: Callable[[str, Alone], None]
    pressed: Callable[[], bool]
    blocks: PrefixCache
    beside: Beside
    found: dict[str, Alone] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def answer(self, loaded: LoadedModel, chunk: int) -> None:
        """Go on with the next reply. Raises MadeWay when somebody waits, Cancelled, RunFailed when a reply can't be
        computed again."""
        del chunk
        for run_id, claim in self.claims.items():
            if claim.model not in (None, loaded.facts.fingerprint.get("name")):
                self.left_out.add(run_id)
            elif run_id not in self.found:
                self.found[run_id] = self._retrace(claim, loaded)
                self.tell(run_id, self.found[run_id])

    def _retrace(self, claim: Claim, loaded: LoadedModel) -> Alone:
        hurry = _Hurry(self.cancelled.is_set, self.pressed)
        run = LiveRun(claim.request, cancelled=hurry)
        follow = Follow(claim.ids)
        execution = _Retraced(run, loaded, self.blocks, self.beside, follow=follow)
        attempt(execution, execution.compute)
        ended = run.result(0).run
        if ended.status is RunStatus.FAILED:
            raise RunFailed(str(ended.error))
        if len(follow.chosen) < len(claim.ids):
            raise Cancelled if self.cancelled.is_set() else MadeWay
        return agreement(claim.ids, follow.chosen)
