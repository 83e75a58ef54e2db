"""The library's own loops for beam search and assisted generation, with what they lack: a prompt read in chunks, Stop, own randomness."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.engine import sampling
from app.engine.assisted import drafting
from app.engine.beams import BeamTotals
from app.engine.prefill import Prefill, in_chunks
from app.engine.prefix_cache import can_reuse
from app.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Event

    import torch

    from app.engine.choosing import Prepared
    from app.engine.inside import Inside
    from app.engine.prefill import Reader
    from app.engine.prefix_cache import PrefixCache
    from app.engine.speculation.gains import LibraryGuesses


@dataclass
class LibraryLoops:
    """For one run. ``seed`` decides all draws; ``library`` holds what the loops need besides; see ``Decoder``."""

    listener: Reader
    cancelled: Event
    seed: int
    blocks: PrefixCache
    library: dict[str, Any]
    inside: Inside

    def beams(self, model: Any, input_ids: torch.Tensor, prepared: Prepared, kwargs: dict[str, Any]) -> Any:
        """Beam search; the ids of those of its sequences that are possible, [sequences, prompt + new]."""
        totals, hook = BeamTotals(), None
        if can_reuse(kwargs.get("cache")):
            # The prompt stands there once per beam: read in chunks it takes less memory, and can be stopped.
            prepared.config.prefill_chunk_size = self.blocks.cuts.most
            hook = model.register_forward_pre_hook(self._chunks(input_ids.shape[1]))
        try:
            with totals.listen(model):
                result = self._run(model._beam_search, input_ids, prepared, kwargs)  # noqa: SLF001
        finally:
            if hook:
                hook.remove()
        sequences: Any = getattr(result, "sequences", result)
        return sequences[: totals.possible(sequences)]

    def _chunks(self, total: int) -> Callable[..., None]:
        """Called before each forward pass: while these read the prompt, tells how far they are and stops between two of them."""
        starts = iter(range(0, total, self.blocks.cuts.most))

        def before(*_: Any) -> None:
            start = next(starts, None)
            if start is None:
                return
            if self.cancelled.is_set():
                raise Cancelled
            self.listener.prefill(start, total, 0)

        return before

    def assisted(
        self,
        model: Any,
        input_ids: torch.Tensor,
        prepared: Prepared,
        kwargs: dict[str, Any],
        inputs: Any,
        guesses: LibraryGuesses | None = None,
    ) -> Any:
        """Assisted generation; ids [1, prompt + new] or generate's output object. ``inputs``: what generate calls ``inputs_tensor``.
        ``guesses`` is told how many passes it took."""
        more = {**self.library, "inputs_tensor": inputs}
        with (
            drafting(model, self.library, self.cancelled),
            self._read_before(model, input_ids, prepared, kwargs),
            _counting(model, guesses),
        ):
            return self._run(model._assisted_decoding, input_ids, prepared, kwargs | more)  # noqa: SLF001

    @contextmanager
    def _read_before(
        self, model: Any, input_ids: torch.Tensor, prepared: Prepared, kwargs: dict[str, Any]
    ) -> Iterator[None]:
        """Read the prompt but for its last token in our own chunks, which can be stopped and reused; the library's loop, which would
        read all of it at once, then begins behind them."""
        config = prepared.config
        whole = input_ids.shape[1] <= self.blocks.cuts.most or config.return_dict_in_generate
        if whole or getattr(config, "use_mtp", False) or not in_chunks(model, kwargs):
            yield
            return
        Prefill(self.blocks, self.cancelled, self.listener).read(model, input_ids[:, :-1], config, kwargs)
        cache, stock = kwargs["cache"], model.prepare_inputs_for_generation

        def prepare(ids: torch.Tensor, **given: Any) -> Any:
            if given.get("is_first_iteration") and given.get("cache") is cache:
                given["next_sequence_length"] = ids.shape[1] - given["cache"].get_seq_length()
            return stock(ids, **given)

        model.prepare_inputs_for_generation = prepare
        try:
            yield
        finally:
            del model.prepare_inputs_for_generation

    def _run(self, loop: Any, input_ids: torch.Tensor, prepared: Prepared, kwargs: dict[str, Any]) -> Any:
        from app.engine.randomness import OwnRandomness

        draws = OwnRandomness(self.seed) if prepared.config.do_sample else nullcontext()
        processors = prepared.processors
        if not prepared.config.remove_invalid_values:
            processors = type(processors)([sampling.NumbersOnly(prepared.prompt_length), *processors])
        with draws:
            result = loop(input_ids, processors, prepared.criteria, prepared.config, **kwargs)
        if prepared.config.return_dict_in_generate:
            self.inside.take(result)
        return result


@contextmanager
def _counting(model: Any, guesses: LibraryGuesses | None) -> Iterator[None]:
    """Passes of the whole model behind the one that reads the prompt."""
    if guesses is None:
        yield
        return
    layers, guesses.passes = model.config.num_hidden_layers, -1

    def count(*_: Any) -> None:
        guesses.passes += model.config.num_hidden_layers == layers

    hook = model.register_forward_pre_hook(count)
    try:
        yield
    finally:
        hook.remove()
