"""One reply of a batch: it prepares itself as a run of its own would, and chooses its tokens by its own settings and random numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine import sampling
from app.engine.batch.place import Place, as_json, moved
from app.engine.choosing import Prepared, choose
from app.engine.exact import exact
from app.engine.execute import Execution, attempt
from app.engine.steps import against_fast
from app.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

    from app.conversation import Json
    from app.engine.batch.place import Places
    from app.engine.events import Ended
    from app.engine.fast.step import FastStep


@dataclass
class Caught:
    """What generate prepared for one row, instead of decoding it. ``input_ids``: [1, tokens]; ``kwargs``: what a forward needs."""

    prepared: Prepared
    input_ids: torch.Tensor
    kwargs: dict[str, Any]


@dataclass
class Catch:
    """A callable for ``custom_generate`` that only keeps what it is given."""

    caught: Caught | None = None

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        inputs_tensor: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Keep it."""
        del model, inputs_tensor
        prepared = Prepared(generation_config, exact(logits_processor), stopping_criteria, input_ids.shape[1])
        self.caught = Caught(prepared, input_ids, kwargs)
        return input_ids


@dataclass(eq=False)
class Row(Execution):
    """``places``: where it has stood so far. ``told``: what computed it, for the record."""

    places: Places = ()
    told: str = ""
    _catch: Catch = field(default_factory=Catch)
    _ids: Any = None
    _sources: list[Any] = field(default_factory=list)

    def ready(self) -> bool:
        """Prepare everything; False when something stands against it, and the run has its end."""
        return attempt(self, self._ready)

    def _ready(self) -> None:
        if self.run.cancelled.is_set():
            raise Cancelled
        prompt, values, streamer = self.prepare()
        self._generate(prompt, values)
        streamer.prepared(self.caught.prepared)
        self._ids = self.caught.input_ids
        if self.caught.prepared.config.do_sample:
            assert self.record.seed is not None  # noqa: S101
            self._sources = sampling.generators(self.record.seed, 1, len(self.run.request.prefix_ids))

    def _decoder(self, _values: Mapping[str, Json]) -> Catch:
        return self._catch

    @property
    def caught(self) -> Caught:
        """What generate prepared. Only once it is ready."""
        assert self._catch.caught is not None  # noqa: S101
        return self._catch.caught

    @property
    def prompt(self) -> list[int]:
        """The tokens in front of its first own one."""
        ids: list[int] = self.caught.input_ids[0].tolist()
        return ids

    @property
    def can_have_neighbours(self) -> bool:
        """Whether its cache can hold several rows that come and go, and its numbers don't depend on what these hold."""
        from transformers import DynamicCache
        from transformers.cache_utils import DynamicLayer

        if self.loaded.facts.num_experts and self.fast is None:
            return False
        cache = self.caught.kwargs.get("cache")
        return isinstance(cache, DynamicCache) and all(isinstance(layer, DynamicLayer) for layer in cache.layers)

    @property
    def fast(self) -> FastStep | None:
        """The step that gives it, beside others, the very numbers that it would get alone; None where there is none for it."""
        decoding, caught = self.beside.decoding, self.caught
        if not decoding.exact_together or self.run.request.places:
            return None
        reason = against_fast(self.loaded.model, caught.prepared.config, caught.kwargs, 1)
        return decoding.step if reason is None else None

    @property
    def token(self) -> int:
        """The last token."""
        return int(self._ids[0, -1])

    @property
    def length(self) -> int:
        """Tokens it has got so far."""
        return 0 if self.streamer is None else len(self.streamer.strands[0].ids)

    def stand(self, rows: int, place: int) -> None:
        """The next token is computed there, and its numbers depend on that."""
        self.places = moved(self.places, Place(self.length, rows, place))

    def take(self, logits: torch.Tensor) -> bool:
        """Choose the next token by ``logits``, float32 [vocabulary]; False when that was the last, and the run has its end."""
        return attempt(self, lambda: self._take_next(logits[None]))

    def _take_next(self, logits: torch.Tensor) -> Ended | None:
        import torch

        if self.run.cancelled.is_set() and not self.length:
            raise Cancelled
        assert self.streamer is not None  # noqa: S101
        prepared = self.caught.prepared
        tokens, scores = choose(self._ids, logits, prepared, self._sources, self.streamer.tracer)
        self._ids = torch.cat([self._ids, tokens[:, None]], dim=-1)
        self.streamer.token(0, int(tokens[0]))
        over = self.run.cancelled.is_set() or bool(prepared.criteria(self._ids, scores).any())
        return self.finish() if over else None

    def _decoded(self) -> dict[str, Json]:
        alone = {"decode": self.told} if self.told else {}
        return {**alone, "batch": as_json(self.places)} if self.places else alone
