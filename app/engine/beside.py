"""What runs on one model share besides the model and the prefix cache: its draft, its fast step, one static cache, compiled forms."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.fast.decoding import Decoding, Trial

if TYPE_CHECKING:
    from transformers import Cache, GenerationConfig

    from app.engine.assisted import Draft
    from app.engine.inside import Inside
    from app.engine.structured import Forms
    from app.models.loading import LoadedModel

KEPT_INSIDES = 3
"""Runs whose attentions, hidden states, scores or logits stay in memory."""


@dataclass
class StaticStore:
    """Keeps the static cache that ``max_cache_len`` asked for, so that one allocation (and one compilation) serves many replies."""

    _cache: Any = None
    _shape: tuple[int, int] = (0, 0)

    def exchange(self, fresh: Any, config: GenerationConfig, count: int) -> Cache:
        """The kept cache, emptied, when it has the size of the ``fresh`` one for ``count`` sequences; else ``fresh``, kept from now on.

        ``fresh`` has not been allocated yet: a static cache takes its memory at the first token.
        """
        from transformers import StaticCache

        if config.max_cache_len is None or not isinstance(fresh, StaticCache):
            self._cache = None
            unkept: Cache = fresh
            return unkept
        shape = (count, int(fresh.layers[0].get_max_length()))
        if self._cache is not None and self._shape == shape:
            self._cache.reset()
        else:
            self._cache, self._shape = fresh, shape
        cache: Cache = self._cache
        return cache


@dataclass
class Beside:
    """Emptied when another model takes the place."""

    draft: Draft | None = None
    trial: Trial = field(default_factory=Trial)
    static: StaticStore = field(default_factory=StaticStore)
    insides: deque[Inside] = field(default_factory=deque)
    _forms: Forms | None = None

    @property
    def decoding(self) -> Decoding:
        """How single tokens are decoded, tried first if it wasn't. Only for the engine's thread; ``trial.known`` is for all."""
        return self.trial.result()

    def forms(self, loaded: LoadedModel) -> Forms:
        """The compiler of output formats for this model."""
        from app.engine.structured import Forms

        if self._forms is None:
            self._forms = Forms(loaded.tokenizer, loaded.facts.vocab_size)
        return self._forms

    def keep(self, inside: Inside) -> None:
        """Keep what a run collected, and let go of the oldest."""
        self.insides.append(inside)
        while len(self.insides) > KEPT_INSIDES:
            self.insides.popleft().clear()

    def clear(self) -> None:
        """Forget everything; the draft's memory is the engine's to free."""
        self.draft, self.trial, self.static, self._forms = None, Trial(), StaticStore(), None
