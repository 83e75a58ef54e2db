"""The decode loop: what ``generate(custom_generate=…)`` runs instead of its own.

generate prepares everything (config, processors, stopping criteria, cache) and hands it over; ``Decoder`` reports what was
prepared, reads the prompt in chunks that can be cancelled and reused, and then either decodes itself (greedy and sampling, any
number of sequences side by side) or lets the library's beam search or assisted decoding go on with the same preparations.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from app.engine import sampling
from app.engine.beside import StaticStore
from app.engine.choosing import Follow, Observer, Prepared, choose, guided
from app.engine.compiling import compiling
from app.engine.exact import exact
from app.engine.fast.decoding import Trial, told
from app.engine.inside import Inside
from app.engine.library_loops import LibraryLoops
from app.engine.prefill import Prefill, Reader
from app.engine.speculation.choice import only_the_library, plan_for
from app.engine.speculation.gains import LibraryGuesses
from app.engine.steps import FastSteps, LibrarySteps, against_fast
from app.engine.threads import all_threads, working

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

    import torch
    from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel, StoppingCriteriaList

    from app.engine.prefix_cache import PrefixCache
    from app.engine.speculation.draft import DraftGuesser
    from app.engine.speculation.plan import Guesses
    from app.engine.steps import Steps


class Listener(Reader, Protocol):
    """Who is told what happens. ``token`` comes once per new token; ``index`` is the sequence it belongs to."""

    def prepared(self, prepared: Prepared) -> None:
        """Generate has prepared everything."""

    def planned(self, guesses: Guesses) -> None:
        """What is guessed ahead, or would have been."""

    def paused(self, seconds: float) -> None:
        """Between two tokens something else was done for so long."""

    def token(self, index: int, token_id: int) -> None:
        """Sequence ``index`` has one more token."""


class Unheard:
    """A ``Listener`` for computations that nobody follows."""

    def prepared(self, prepared: Prepared) -> None:
        """Not told to anybody."""

    def prefill(self, done: int, total: int, reused: int) -> None:
        """Not told to anybody."""

    def planned(self, guesses: Guesses) -> None:
        """Not told to anybody."""

    def paused(self, seconds: float) -> None:
        """Not told to anybody."""

    def token(self, index: int, token_id: int) -> None:
        """Not told to anybody."""


@dataclass
class Decoder:
    """A callable for ``custom_generate``. ``seed`` decides all draws; ``library`` holds what the library's own loops need
    besides (streamer, assistant_model, tokenizer …); ``position``: output tokens that the reply starts with; ``inside`` collects
    what output_… parameters asked for. ``trial``: of the fast step; ``decoded_by`` says afterwards what decoded.
    ``follow``: the tokens that a single sequence takes whatever is chosen. ``guessing``: who guesses ahead; ``draft``: that draft model,
    where our own loop can check it."""

    listener: Listener
    cancelled: Event
    seed: int
    blocks: PrefixCache
    position: int = 0
    observer: Observer | None = None
    library: dict[str, Any] = field(default_factory=dict)
    inside: Inside = field(default_factory=Inside)
    static: StaticStore = field(default_factory=StaticStore)
    trial: Trial = field(default_factory=Trial)
    decoded_by: str = ""
    follow: Follow | None = None
    guessing: str | None = None
    draft: DraftGuesser | None = None

    def __call__(
        self,
        model: PreTrainedModel,
        input_ids: torch.Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        inputs_tensor: torch.Tensor | None = None,
        **model_kwargs: Any,
    ) -> Any:
        """Decode; returns ids of shape [sequences, prompt + new] or generate's output object."""
        from transformers.generation.configuration_utils import GenerationMode

        prepared = Prepared(generation_config, exact(logits_processor), stopping_criteria, input_ids.shape[1])
        self.listener.prepared(prepared)
        if (cache := model_kwargs.get("cache")) is not None:
            model_kwargs["cache"] = self.static.exchange(cache, generation_config, input_ids.shape[0])
            self.inside.cache = _name(model_kwargs["cache"])
        mode = generation_config.get_generation_mode(self.library.get("assistant_model"))
        with compiling(model, generation_config):
            ours = mode in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)
            assisted = mode is GenerationMode.ASSISTED_GENERATION
            if ours or (assisted and self._checks(model, generation_config, model_kwargs, input_ids.shape[0])):
                return self._decode(model, input_ids, prepared, model_kwargs)
            self.decoded_by = told(mode.value.replace("_", " "))
            loops = LibraryLoops(self.listener, self.cancelled, self.seed, self.blocks, self.library, self.inside)
            if "beam" in mode.value:
                return loops.beams(model, input_ids, prepared, model_kwargs)
            guesses = self._told_guesses(model)
            return loops.assisted(model, input_ids, prepared, model_kwargs, inputs_tensor, guesses)

    def _told_guesses(self, model: Any) -> LibraryGuesses | None:
        """What the figures say of guesses in the library's loop; None where nobody knows who makes them."""
        if self.guessing is None:
            return None
        guesses = LibraryGuesses(self.guessing, self.trial.result().pace(model))
        self.listener.planned(guesses)
        return guesses

    @property
    def _prefill(self) -> Prefill:
        return Prefill(self.blocks, self.cancelled, self.listener)

    def _decode(self, model: Any, input_ids: torch.Tensor, prepared: Prepared, kwargs: dict[str, Any]) -> torch.Tensor:
        import torch

        config, count = prepared.config, input_ids.shape[0]
        sources = sampling.generators(self.seed, count, self.position) if config.do_sample else []
        compiled = self.inside.compiled = model._valid_auto_compile_criteria(kwargs, config)  # noqa: SLF001
        forward = model.get_compiled_call(config.compile_config) if compiled else model.__call__
        outputs = self._prefill.read(model, input_ids, config, kwargs)
        alive = torch.ones(count, dtype=torch.bool, device=input_ids.device)
        threads = all_threads()
        with ExitStack() as stack, model._optimize_model_for_decode():  # noqa: SLF001

            def begin() -> Steps:
                with working(threads):
                    self._try()
                    return stack.enter_context(self._steps(model, forward, config, kwargs, count))

            # While the fast step is still to be tried, the first token, which doesn't need it, goes first.
            steps = None if self.trial.pending else begin()
            stack.enter_context(working(threads if guided(prepared) else 1))
            while True:
                logits = outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=input_ids.device)
                if self.observer:
                    self.observer.outputs(outputs)
                tokens, scores = choose(input_ids, logits, prepared, sources, self.observer)
                if self.follow:
                    tokens = self.follow(tokens)
                self.inside.step(config, outputs, logits, scores)
                if count > 1:  # a finished sequence is filled up
                    pad: Any = config._pad_token_tensor  # noqa: SLF001
                    tokens = torch.where(alive, tokens, pad)
                input_ids = torch.cat([input_ids, tokens[:, None]], dim=-1)
                for index in alive.nonzero().flatten().tolist():
                    self.listener.token(index, int(tokens[index]))
                alive = alive & ~prepared.criteria(input_ids, scores)
                if self.cancelled.is_set() or not alive.any():
                    return input_ids
                steps = steps or begin()
                steps.after(outputs)
                del outputs
                outputs = steps.next(input_ids)

    def _try(self) -> None:
        """Try the fast step, if that is still to be done; the figures leave the time out, for it isn't the reply's."""
        if self.trial.pending:
            begun = monotonic()
            self.trial.result()
            self.listener.paused(monotonic() - begun)

    def _checks(self, model: Any, config: GenerationConfig, kwargs: dict[str, Any], count: int) -> bool:
        """Whether our own loop checks the guesses of prompt lookup or a draft: with the fast step it does."""
        decoding = self.trial.result()
        if decoding.step is None or not decoding.exact_together or only_the_library(config, self.draft):
            return False
        return against_fast(model, config, kwargs, count) is None

    @contextmanager
    def _steps(
        self, model: Any, forward: Any, config: GenerationConfig, kwargs: dict[str, Any], count: int
    ) -> Iterator[Steps]:
        """How this reply gets from token to token: by the fast step wherever it serves both model and settings."""
        decoding = self.trial.result()
        reason = decoding.reason if decoding.step is None else against_fast(model, config, kwargs, count)
        self.decoded_by = told(reason)
        fast = decoding.step if reason is None else None
        if fast:
            plan = plan_for(config, fast, decoding, self.draft)
            self.listener.planned(plan)
            steps: Steps = FastSteps(fast, kwargs["cache"], plan)
        else:
            steps = LibrarySteps(model, forward, kwargs, took=decoding.gains.took if count == 1 else None)
        try:
            yield steps
        finally:
            steps.end()
            if fast and plan.grows:  # the library's loop leaves what it has reached there, too
                self.library["assistant_model"].generation_config.num_assistant_tokens = plan.most


def _name(cache: Any) -> str:
    """The class of a cache; of an encoder–decoder model's, that of the decoder's part."""
    return type(getattr(cache, "self_attention_cache", cache)).__name__
