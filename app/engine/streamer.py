"""From new token ids to events of a run: the library's streamer, with the run's event log in place of its queue.

The stock TextIteratorStreamer decodes its whole buffer at every token, holds words back until a space, and leaves its reader hanging when
generate raises. Here text is decoded incrementally and exactly, and readers follow the run's log, which always ends.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from transformers import StoppingCriteria, TextIteratorStreamer

from app.conversation import RunStatus
from app.engine.encoding import special_ids
from app.engine.events import Progress, StatusChanged, TextDelta
from app.engine.rows import rows_for
from app.engine.text import THINKING_PAIRS, IncrementalDecoder, StopFilter, ThinkingSplitter
from app.engine.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from transformers import PreTrainedTokenizerBase

    from app.engine.choosing import Prepared
    from app.engine.run import LiveRun
    from app.engine.speculation.plan import Guesses
    from app.native.library import Kernels


class Strand:
    """One returned sequence: its new ids, its text, and the filters in between."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prefix_ids: Sequence[int], stops: Sequence[str]) -> None:
        self.ids: list[int] = []
        self.text = ""
        self.decoder = IncrementalDecoder(tokenizer, _hidden(tokenizer), prefix_ids)
        self.stops = StopFilter(stops)
        self.thinking = ThinkingSplitter()


def _hidden(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Special tokens that are not shown: all but the thinking tags, which become the collapsible part."""
    tags = {t for pair in THINKING_PAIRS.items() for t in pair}
    return special_ids(tokenizer) - {i for i, t in tokenizer.added_tokens_decoder.items() if t.content in tags}


class RunStreamer(TextIteratorStreamer):
    """A ``Listener`` of the decode loop and a streamer for the library's own loops, writing into a run's log.

    ``count`` sequences. ``at_once``: tokens come at the end only (beam search), so speed is measured from the prompt on.
    """

    def __init__(  # noqa: PLR0913  (all of a reply's starting point)
        self,
        run: LiveRun,
        tokenizer: PreTrainedTokenizerBase,
        *,
        prefix_ids: Sequence[int] = (),
        prefix_text: str = "",
        stops: Sequence[str] = (),
        opening: str = "",
        count: int = 1,
        at_once: bool = False,
        prompt_tokens: int = 0,
        trace_top_k: int = 0,
        kernels: Kernels | None = None,
    ) -> None:
        super().__init__(tokenizer, skip_prompt=False, skip_special_tokens=True)
        self.run = run
        self.strands = [Strand(tokenizer, prefix_ids, stops) for _ in range(count)]
        self.at_once = at_once
        self.prefilled_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None
        self.prompt_tokens = prompt_tokens
        self.tracer = Tracer(trace_top_k, count, rows_for(kernels)) if trace_top_k and not at_once else None
        self.reused = 0
        self.ended = False
        self.preparation: Prepared | None = None
        self.guesses: Guesses | None = None
        self.paused_s = 0.0
        # A block that the prompt has opened is opened in the reply too: then its text can be read, and gone on from, by itself.
        begun = prefix_text if prefix_text.lstrip().startswith(tuple(THINKING_PAIRS)) else opening + prefix_text
        for index in range(count):
            self._emit(index, begun)

    def prepared(self, prepared: Prepared) -> None:
        """Keep what generate prepared, for reading back at the end."""
        self.preparation = prepared
        self.prefilled_at = monotonic()

    def prefill(self, done: int, total: int, reused: int) -> None:
        """Prompt tokens read so far."""
        self.reused, self.prefilled_at = reused, monotonic()
        self.run.append(Progress("prompt", done, total))

    def planned(self, guesses: Guesses) -> None:
        """Keep what tells of the guesses, for the figures at the end."""
        self.guesses = guesses

    def paused(self, seconds: float) -> None:
        """Something else was done between two tokens."""
        self.paused_s += seconds

    def token(self, index: int, token_id: int) -> None:
        """One more token of a sequence."""
        self.last_token_at = monotonic()
        if self.first_token_at is None:
            self.first_token_at = self.last_token_at
            generating(self.run)
        strand = self.strands[index]
        if strand.stops.hit is not None:  # accepted together with the token that completed the stop string
            return
        strand.ids.append(token_id)
        self._emit(index, strand.stops.push(strand.decoder.push(token_id)))

    def put(self, value: torch.Tensor) -> None:
        """New ids from one of the library's loops (batch of one)."""
        for token_id in value.flatten().tolist():
            self.token(0, token_id)

    def end(self) -> None:
        """Give out everything that was held back; the library's loops and the run both call it."""
        if self.ended:
            return
        self.ended = True
        for index, strand in enumerate(self.strands):
            self._emit(index, strand.stops.push(strand.decoder.flush()) + strand.stops.flush())
            for kind, text in strand.thinking.flush():
                self._append(index, text, kind)

    def trace(self, index: int) -> bytes | None:
        """The packed trace of a sequence; None when none was recorded (switched off, or one of the library's own loops ran)."""
        trace = self.tracer.trace(index, len(self.strands[index].ids)) if self.tracer else None
        return trace.pack() if trace else None

    def stopped(self, index: int) -> bool:
        """Whether a stop string has ended this sequence."""
        return self.strands[index].stops.hit is not None

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:  # noqa: FBT001, FBT002  (the library's signature)
        """Text that is certain goes into the run's log."""
        del stream_end
        self._emit(0, text)

    def _emit(self, index: int, text: str) -> None:
        if text:
            for kind, part in self.strands[index].thinking.push(text):
                self._append(index, part, kind)

    def _append(self, index: int, text: str, kind: Any) -> None:
        self.strands[index].text += text
        self.run.append(TextDelta(text, kind, index))


def generating(run: LiveRun) -> None:
    """The prompt has been read."""
    if run.status is RunStatus.PREFILL:
        run.append(StatusChanged(RunStatus.GENERATING))


class StopOnText(StoppingCriteria):
    """Ends a sequence once its text has met a stop string."""

    def __init__(self, streamer: RunStreamer, stop_strings: Sequence[str]) -> None:
        self.streamer = streamer
        self.stop_strings = tuple(stop_strings)

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Bool [batch]: which sequences are finished."""
        import torch

        flags = [self.streamer.stopped(index) for index in range(input_ids.shape[0])]
        return torch.tensor(flags, device=input_ids.device)


class StopOnTail(StoppingCriteria):
    """Ends a beam once the end of its text holds a stop string; beams change places, so each is read from its own tokens."""

    def __init__(self, streamer: RunStreamer, tokenizer: PreTrainedTokenizerBase, stop_strings: Sequence[str]) -> None:
        self.streamer = streamer
        self.tokenizer = tokenizer
        self.stop_strings = tuple(stop_strings)
        self.window = max(len(text.encode()) for text in stop_strings) + 8

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Bool [batch]: which sequences are finished."""
        import torch

        start = self.streamer.preparation.prompt_length if self.streamer.preparation else 0
        tails = input_ids[:, max(start, input_ids.shape[1] - self.window) :]
        texts = self.tokenizer.batch_decode(tails, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        flags = [any(stop in text for stop in self.stop_strings) for text in texts]
        return torch.tensor(flags, device=input_ids.device)


class StopOnCancel(StoppingCriteria):
    """Ends every sequence as soon as the run is cancelled; also counts the steps of loops that don't stream."""

    def __init__(self, run: LiveRun, *, report: bool) -> None:
        self.run = run
        self.report = report
        self.start: int | None = None

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Bool [batch]: all or none."""
        import torch

        if self.report:
            self.start = input_ids.shape[1] - 1 if self.start is None else self.start
            generating(self.run)
            self.run.append(Progress("tokens", input_ids.shape[1] - self.start, 0))
        return torch.full((input_ids.shape[0],), self.run.cancelled.is_set(), device=input_ids.device)
