"""The model in memory, with what belongs to it: its prefix cache, its draft, its desk. Only the engine's thread changes it.

Loading is safe: another model takes the place only once it is ready, and a load that fails or is stopped leaves the previous one in use.
Where memory doesn't hold both, the previous one is freed first; if the load fails then, it comes back with the next message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from app.engine.beside import Beside
from app.engine.cuts import Cuts
from app.engine.desk import Desk
from app.engine.fast.decoding import Trial
from app.engine.prefix_cache import PrefixCache
from app.errors import Cancelled, FaderError, NoModel, OutOfMemory, UnsupportedModel
from app.remote.address import is_remote
from app.remote.connecting import RemoteModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from app.models.facts import ModelFacts
    from app.models.loading import LoadedModel
    from app.models.options import LoadOptions
    from app.settings import Settings

MESSAGE_NO_TOKENIZER = (
    "{label} runs on {host}, and its tokenizer is there too: tokens and the exact prompt can be shown "
    "for models on this machine only."
)
MESSAGE_NO_MODEL = "No model is loaded. Choose one under “Models”, or start Fader with --model."

DRAFT_ELSEWHERE = "A draft model drafts token by token in step with the other: both must be on this machine."

Report: TypeAlias = "Callable[[str, int, int], None]"
"""Told while a model loads: what is being done, and how many of how many steps are behind."""


class Models(Protocol):
    """Loads and frees models; ``app.models`` fulfils it."""

    def load(self, name: str, *, progress: Report, cancelled: Event, options: LoadOptions | None = None) -> LoadedModel:
        """Load by name, as ``options`` say or as was chosen for it before. Raises ModelError or Cancelled."""

    def unload(self, loaded: LoadedModel) -> None:
        """Give the memory back."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What the page shows about the model. ``state``: none, loading, ready or failed; after a failed load ``facts`` is the
    previous model's when that is still usable. ``done`` of ``total`` steps while loading."""

    state: str
    name: str | None = None
    facts: ModelFacts | None = None
    detail: str = ""
    done: int = 0
    total: int = 0


def no_desk(status: ModelStatus) -> NoModel:
    """Why there is no desk to ask: no model, or one on a server."""
    if status.facts and (remote := status.facts.remote):
        return NoModel(MESSAGE_NO_TOKENIZER.format(label=status.facts.label, host=remote.host))
    return NoModel(status.detail or MESSAGE_NO_MODEL)


@dataclass(frozen=True, slots=True)
class Resting:
    """What was freed, after a pause or to make room, and comes back when it is wanted."""

    name: str
    draft: str | None
    made_room: bool = False


class HeldModel:
    """``loaded``, ``desk`` and ``status`` may be read by any thread; the rest belongs to the engine's."""

    def __init__(self, models: Models, settings: Settings) -> None:
        self.models = models
        self.blocks: PrefixCache = PrefixCache(Cuts(settings.prefill_chunk), settings.prefix_cache_mb * 2**20)
        self.beside = Beside()
        self.loaded: LoadedModel | None = None
        self.desk: Desk | None = None
        self.status = ModelStatus("none")
        self._resting: Resting | None = None
        self._fast_step = settings.fast_step

    def missing(self, wanted: str | None) -> str | None:
        """The name of the model that must be loaded before ``wanted`` (None: whichever there is) can be computed with."""
        if self.loaded is None:
            return wanted or (self._resting.name if self._resting else None)
        return wanted if wanted != self.status.name else None

    def holds(self, name: str, *, draft: bool = False) -> bool:
        """Whether the model of that name, or the draft, is in use."""
        if draft:
            return self.beside.draft is not None and self.beside.draft.name == name
        return self.loaded is not None and self.status.name == name

    def ready(self, wanted: str | None, cancelled: Event, report: Report | None = None) -> LoadedModel:
        """The model, loaded first if need be. Raises NoModel, ModelError or Cancelled."""
        if name := self.missing(wanted):
            resting = self._resting
            self.put(name, cancelled, report)
            if resting and resting.draft and resting.name == name:
                self.put_draft(resting.draft, cancelled)
        if self.loaded is None:
            raise NoModel(self.status.detail or MESSAGE_NO_MODEL)
        return self.loaded

    def put(
        self, name: str, cancelled: Event, report: Report | None = None, options: LoadOptions | None = None
    ) -> None:
        """Load ``name`` beside the previous model, or in its place where memory holds only one. Raises ModelError or Cancelled."""
        previous = self.status
        self.status = ModelStatus("loading", name, previous.facts if self.loaded else None, f"Loading {name}")
        try:
            fresh = self._fetched(name, cancelled, self._telling(report), options, previous)
        except Cancelled:
            self.status = self._after_cancel(previous, name)
            raise
        except FaderError as error:
            self.status = self._after_failure(previous, str(error))
            raise
        except Exception as error:
            sentence = f"{name} could not be loaded: {type(error).__name__}: {error}"
            self.status = self._after_failure(previous, sentence)
            raise NoModel(sentence) from error
        self._take(name, fresh)

    def _fetched(
        self, name: str, cancelled: Event, progress: Report, options: LoadOptions | None, previous: ModelStatus
    ) -> LoadedModel:
        try:
            return self.models.load(name, progress=progress, cancelled=cancelled, options=options)
        except OutOfMemory as error:
            held = self.loaded.report.resident_bytes if self.loaded else 0
            if not held or (error.missing is not None and error.missing > held):
                raise
            self._make_room(name, previous.name or "")
        return self.models.load(name, progress=progress, cancelled=cancelled, options=options)

    def _make_room(self, name: str, leaving: str) -> None:
        """Free the model that is in memory, ``leaving``, for the sake of ``name``."""
        draft = self.beside.draft
        self.status = ModelStatus("loading", name, detail=f"Memory doesn’t hold both: unloading {leaving} first")
        self._exchange(None)
        self._resting = Resting(leaving, draft.name if draft else None, made_room=True)

    def _telling(self, report: Report | None) -> Report:
        def progress(what: str, done: int, total: int) -> None:
            self.status = replace(self.status, detail=what, done=done, total=total)
            if report:
                report(what, done, total)

        return progress

    def _take(self, name: str, fresh: LoadedModel) -> None:
        self._exchange(fresh)
        if not isinstance(fresh, RemoteModel):
            from app.engine.fast.proof import decoding_for

            _forget_own_settings(fresh)
            self.beside.trial = Trial(partial(decoding_for, fresh, wanted=self._fast_step))
        self.status = ModelStatus("ready", name, fresh.facts)

    def _exchange(self, fresh: LoadedModel | None) -> None:
        """Put ``fresh`` in the place of the model, and free that with all that belonged to it."""
        self.free_draft()
        self.blocks.clear()
        self.beside.clear()
        ends = frozenset(fresh.facts.eos_token_ids) if fresh else frozenset[int]()
        self.blocks.cuts = replace(self.blocks.cuts, ends=ends)
        leaving, self.loaded = self.loaded, fresh
        self.desk = None if fresh is None or isinstance(fresh, RemoteModel) else Desk(fresh.tokenizer, fresh.facts)
        self._resting = None
        if leaving is not None:
            self.models.unload(leaving)

    def _after_failure(self, previous: ModelStatus, sentence: str) -> ModelStatus:
        if self.loaded is None:
            return ModelStatus("failed", None, None, f"{sentence}{self._absence()}")
        return ModelStatus("ready", previous.name, self.loaded.facts, f"{sentence} The previous model is still in use.")

    def _after_cancel(self, previous: ModelStatus, name: str) -> ModelStatus:
        if self.loaded is None and (absence := self._absence()):
            return ModelStatus("none", detail=f"Loading {name} was cancelled.{absence}")
        return previous

    def _absence(self) -> str:
        """What became of the model that was freed to make room, as a further sentence; empty when none was."""
        if self._resting is None or not self._resting.made_room:
            return ""
        return f" {self._resting.name} was unloaded to make room; it loads again with your next message."

    def put_draft(self, name: str, cancelled: Event) -> None:
        """Free the draft and load this one beside the model, which stays ready whatever happens. Raises ModelError or Cancelled."""
        if self.loaded is None:
            raise NoModel("Load a model first; a draft model only helps another one.")
        main = self.loaded
        if isinstance(main, RemoteModel) or is_remote(name):
            raise UnsupportedModel(DRAFT_ELSEWHERE)
        from app.engine.assisted import pair
        from app.engine.fast.proof import reader_for

        self.free_draft()
        ready = self.status

        def progress(what: str, done: int, total: int) -> None:
            self.status = replace(ready, detail=f"Draft model: {what}", done=done, total=total)

        try:
            fresh = self.models.load(name, progress=progress, cancelled=cancelled)
            try:
                self.beside.draft = pair(main, fresh, name, reader_for(fresh, self.beside.decoding.step))
            except FaderError:
                self.models.unload(fresh)
                raise
        finally:
            self.status = ready
            self._tell_draft()

    def free_draft(self) -> None:
        """Free the draft, if there is one."""
        if self.beside.draft is not None:
            leaving, self.beside.draft = self.beside.draft.loaded, None  # its step goes first: that holds weights too
            self.models.unload(leaving)
            self._tell_draft()

    def _tell_draft(self) -> None:
        """The facts say which draft stands beside the model."""
        from app.engine.assisted import facts_with

        if self.loaded is not None and not isinstance(self.loaded, RemoteModel):
            self.loaded.facts = facts_with(self.loaded.facts, self.beside.draft)
            self.desk = Desk(self.loaded.tokenizer, self.loaded.facts)
            self.status = replace(self.status, facts=self.loaded.facts)

    def rest(self, why: str = "") -> None:
        """Nothing was asked for a long time (or ``why``): free the model, and load it again when it is wanted."""
        name, draft = self.status.name, self.beside.draft
        self.free()
        if name:
            self._resting = Resting(name, draft.name if draft else None)
            pause = f"{name} was unloaded after a pause; it loads again with your next message."
            self.status = ModelStatus("none", detail=why or pause)

    def notice_loss(self) -> None:
        """Let a model rest that can't compute any more, because a process over which it was spread has ended."""
        if self.loaded is not None and (why := self.loaded.lost()):
            self.rest(why)

    def free(self) -> None:
        """Give back the memory of the model, its draft and its prefix cache."""
        self._exchange(None)
        self.status = ModelStatus("none")


def _forget_own_settings(loaded: LoadedModel) -> None:
    """Empty the model's own generation config: its values come in through the resolution (``facts.generation_defaults``), where
    they are shown and can be switched off; generate would fill every "off" that is None from here."""
    from transformers import GenerationConfig

    loaded.model.generation_config = GenerationConfig()
