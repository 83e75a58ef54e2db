"""How a run ended: the reason, the figures, and the records that are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.conversation import FinishReason, Run, RunStatus, Stats, new_id, now
from app.engine.events import Ended, Outcome
from app.engine.sampling import SEED_LIMIT
from app.errors import FaderError, OutOfMemory, RunFailed

if TYPE_CHECKING:
    from app.engine.run import LiveRun
    from app.engine.streamer import RunStreamer, Strand

ADVICE_MEMORY = (
    "Memory ran out while generating. Try a shorter conversation, fewer max_new_tokens, num_beams = 1, "
    "num_return_sequences = 1, or a smaller model."
)


def explain(error: Exception) -> FaderError:
    """An exception of the model or the library as an error with a sentence for the user."""
    if isinstance(error, FaderError):
        return error
    text = str(error)
    if isinstance(error, MemoryError) or "out of memory" in text.lower() or "can't allocate memory" in text:
        return OutOfMemory(ADVICE_MEMORY)
    return RunFailed(f"Generation failed: {type(error).__name__}: {text or 'no further message'}")


def finish_reason(run: LiveRun, streamer: RunStreamer, strand: Strand) -> FinishReason:
    """Why this sequence ended, in the order in which the causes outrank each other."""
    from transformers import MaxTimeCriteria

    prepared = streamer.preparation
    if strand.stops.hit is not None:
        return FinishReason.STOP_STRING
    if prepared is not None and strand.ids:
        eos = prepared.config._eos_token_tensor  # noqa: SLF001
        if eos is not None and strand.ids[-1] in eos.flatten().tolist():
            return FinishReason.EOS
    if run.cancelled.is_set():
        return FinishReason.STOPPED
    timers = [c for c in (prepared.criteria if prepared else ()) if isinstance(c, MaxTimeCriteria)]
    # Asked again now: a run that ended by length a moment before its time was up would be misread, so length goes first.
    if prepared and prepared.config.max_length is not None:
        full = prepared.prompt_length + len(strand.ids) >= prepared.config.max_length
        if not full and timers:
            return FinishReason.TIME
    return FinishReason.LENGTH


def stats(run: LiveRun, streamer: RunStreamer | None, strand: Strand | None) -> Stats:
    """Figures of a sequence. The speed counts from the first token to the last; one token alone has none."""
    if streamer is None or strand is None:
        return Stats()
    first, last, count = streamer.first_token_at, streamer.last_token_at, len(strand.ids)
    start = streamer.prefilled_at if streamer.at_once else first
    steps = count if streamer.at_once else count - 1
    seconds = last - start - streamer.paused_s if start is not None and last is not None else 0.0
    speed = steps / seconds if seconds > 0 and steps > 0 else None
    guesses = streamer.guesses
    return Stats(
        prompt_tokens=streamer.prompt_tokens,
        new_tokens=count,
        ttft_s=None if first is None else first - run.submitted_at,
        tokens_per_s=speed,
        reused_tokens=streamer.reused,
        drafted_by=guesses.drafted_by if guesses else None,
        passes=guesses.passes if guesses else 0,
        gain=guesses.gain(speed) if guesses else None,
    )


def end_of(run: LiveRun, record: Run, streamer: RunStreamer) -> Ended:
    """The end of a run that came through: its own record and those of its siblings."""
    first, *others = [_outcome(run, record, streamer, index) for index in range(len(streamer.strands))]
    return Ended(first.run, first.text, first.trace, tuple(others))


def _outcome(run: LiveRun, record: Run, streamer: RunStreamer, index: int) -> Outcome:
    strand = streamer.strands[index]
    reason = finish_reason(run, streamer, strand)
    ended = replace(
        record,
        id=record.id if index == 0 else new_id(),
        status=RunStatus.STOPPED if reason is FinishReason.STOPPED else RunStatus.DONE,
        finish_reason=reason,
        seed=_seed_of(record.seed, index, streamer),
        output_ids=(*run.request.prefix_ids, *strand.ids),
        stats=stats(run, streamer, strand),
        finished_at=now(),
    )
    return Outcome(ended, strand.text, streamer.trace(index))


def _seed_of(seed: int | None, index: int, streamer: RunStreamer) -> int | None:
    """Sampled sequences draw each with a seed of its own; beams share theirs."""
    return seed if seed is None or streamer.at_once else (seed + index) % SEED_LIMIT


def cut_short(
    run: LiveRun,
    record: Run,
    status: RunStatus,
    reason: FinishReason,
    error: str | None = None,
    streamer: RunStreamer | None = None,
) -> Ended:
    """The end of a run that was stopped or failed: what there is of it is kept."""
    strand = streamer.strands[0] if streamer else None
    ended = replace(
        record,
        status=status,
        finish_reason=reason,
        error=error,
        output_ids=(*run.request.prefix_ids, *(strand.ids if strand else ())),
        stats=stats(run, streamer, strand),
        finished_at=now(),
    )
    if streamer is None or strand is None:
        return Ended(ended, run.text() or run.request.prefix_text)
    return Ended(ended, strand.text, streamer.trace(0))
