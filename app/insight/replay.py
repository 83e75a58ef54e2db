"""Exact replay: run a stored reply again from its prompt ids, parameters and seed, and say whether it is the same to the token."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from app.conversation import FAST, new_id
from app.engine.batch.claims import claim_of
from app.engine.batch.place import from_json
from app.engine.run import RunRequest
from app.engine.trace import Trace
from app.errors import RefusedInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from app.conversation import Json, Run
    from app.engine.batch.claims import Claim
    from app.engine.events import Ended


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token with its probability after processing."""

    id: int
    probability: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Something about the environment or the computation that is not as it was."""

    what: str
    then: Json
    now: Json


@dataclass(frozen=True, slots=True)
class Replay:
    """``first_divergence``: index of the first output token that differs (None: identical), with what each run chose from there."""

    identical: bool
    first_divergence: int | None
    differences: tuple[Difference, ...]
    then: tuple[Candidate, ...] = ()
    now: tuple[Candidate, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """For ``fader replay --json`` and the page."""
        return asdict(self)


def request_for(run: Run, model: str | None = None) -> RunRequest:
    """The request that repeats a run. Raises RefusedInput for one that never reached the model."""
    if host := run.model_fingerprint.get("remote"):
        raise RefusedInput(
            f"This reply came from a server ({host}), which promises no exact repetition, so it can't be replayed. Regenerate it with "
            "the same seed to see what the server gives now."
        )
    if not run.prompt_ids:
        sentence = "This reply can't be replayed: it ended before the model saw its prompt."
        raise RefusedInput(sentence)
    kept = len(run.output_ids) - run.stats.new_tokens
    # A stopped or timed-out reply ended by the clock: replaying it means the same number of tokens.
    limits = {"max_new_tokens": max(1, run.stats.new_tokens), "max_time": None}
    alone = {"num_return_sequences": 1} if run.effective.get("num_beams") in (None, 1) else {}
    requested = {**run.requested, **alone, **limits, "seed": run.seed}
    requested.pop("max_length", None)
    return RunRequest(
        new_id(),
        "",
        "",
        messages=(),
        requested={name: value for name, value in requested.items() if value is not None},
        prompt_ids=run.prompt_ids,
        prefix_ids=run.output_ids[:kept],
        model=model,
        library_steps=_library_steps(run),
        unguessed=not run.effective.get("prompt_lookup_num_tokens") and "draft" not in run.model_fingerprint,
        places=from_json(run.model_fingerprint.get("batch")),
    )


def alone_claim(run: Run) -> Claim:
    """The claim that a reply of a batch is what it would have been alone."""
    new = run.output_ids[len(run.output_ids) - run.stats.new_tokens :]
    return claim_of(request_for(run), new, run.model_fingerprint.get("name"))


def _library_steps(run: Run) -> str | None:
    """What an earlier run says of its decoding, where it was the library's (records from before the fast step say nothing)."""
    told = str(run.model_fingerprint.get("decode") or "")
    return None if told == FAST else told


def compare(old: Run, old_trace: bytes | None, ended: Ended) -> Replay:
    """Hold a replay against the stored run."""
    new = ended.run
    first = _first_difference(old.output_ids, new.output_ids)
    differences = tuple(_differences(old, new))
    if first is None:
        return Replay(identical=True, first_divergence=None, differences=differences)
    step = first - (len(old.output_ids) - old.stats.new_tokens)
    then, now = _candidates(old_trace, step), _candidates(ended.trace, step)
    return Replay(identical=False, first_divergence=first, differences=differences, then=then, now=now)


def _first_difference(old: tuple[int, ...], new: tuple[int, ...]) -> int | None:
    if old == new:
        return None
    pairs = zip(old, new, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _differences(old: Run, new: Run) -> Iterator[Difference]:
    yield from _unequal("", old.model_fingerprint, new.model_fingerprint)
    ignored = {
        "max_new_tokens",
        "min_new_tokens",
        "max_time",
        "num_return_sequences",
        "max_length",
        "min_length",
        "seed",
    }
    for name, value in old.effective.items():
        if name not in ignored and name in new.effective and new.effective[name] != value:
            yield Difference(f"parameter {name}", value, new.effective[name])
    if old.stats.reused_tokens != new.stats.reused_tokens:
        yield Difference("tokens taken from the prefix cache", old.stats.reused_tokens, new.stats.reused_tokens)


def _unequal(path: str, old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Difference]:
    for name in sorted({*old, *new}):
        then, now = old.get(name), new.get(name)
        if isinstance(then, dict) and isinstance(now, dict):
            yield from _unequal(f"{path}{name}.", then, now)
        elif then != now:
            yield Difference(f"{path}{name}", then, now)


def _candidates(data: bytes | None, step: int, count: int = 5) -> tuple[Candidate, ...]:
    trace = Trace.unpack(data) if data else None
    if trace is None or not 0 <= step < len(trace):
        return ()
    import numpy as np

    chances = np.exp(trace.processed[step].astype(np.float64) - trace.processed_logsumexp[step])
    order = np.argsort(-chances)[:count]
    return tuple(Candidate(int(trace.ids[step, i]), float(chances[i])) for i in order)
