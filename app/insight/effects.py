"""Which parameters mattered for a reply: how often each acted, how much it took away, and where the text would have been another.

Derived from the recorded trace alone. Where a trace can't tell (a token outside the stored candidates), that is said, not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from app.conversation import FinishReason
from app.insight.cutoffs import UNKNOWN
from app.insight.stages import PARAMETER_OF, RESHAPES
from app.insight.what_if import Setting, predict

if TYPE_CHECKING:
    from app.conversation import Json, Run
    from app.engine.trace import Trace

MOVABLE = frozenset(Setting.__slots__) - {"do_sample"}
OFF = Setting()
_ENDINGS = {
    FinishReason.LENGTH: ("max_new_tokens", "max_length"),
    FinishReason.STOP_STRING: ("stop_strings",),
    FinishReason.TIME: ("max_time",),
}


@dataclass(frozen=True, slots=True)
class Effect:
    """What one parameter did. ``acted``: tokens at which it excluded or changed something, of ``tokens`` in all.

    ``mean_removed``, ``max_removed``: probability it took away, over the tokens at which it acted (None for what reshapes).
    ``would_differ``: tokens (from 0) whose choice would surely have been another without it, the text before being the same;
    ``unknown``: tokens for which the trace can't tell (all of them where None). ``mattered``: None if that can't be known.
    """

    name: str
    value: Json
    acted: int
    tokens: int
    mean_removed: float | None
    max_removed: float | None
    would_differ: tuple[int, ...]
    unknown: int | None
    mattered: bool | None
    sentence: str


def effects(run: Run, trace: Trace) -> tuple[Effect, ...]:
    """One effect per parameter that was in force: every stage of the decode loop, and whatever ended the reply."""
    found = [_stage(run, trace, index) for index in range(len(trace.stages))]
    known = {effect.name for effect in found}
    found += [effect for effect in _endings(run, len(trace)) if effect.name not in known]
    return tuple(found)


def _stage(run: Run, trace: Trace, index: int) -> Effect:
    name = PARAMETER_OF.get(trace.stages[index], trace.stages[index])
    before = np.full(len(trace), trace.vocabulary) if index == 0 else trace.left[:, index - 1]
    removed = before - trace.left[:, index]
    differ, unknown = _without(run, trace, name)
    if name in RESHAPES:
        acted, mean, most = _reshaped(trace, index), None, None
    else:
        active = removed > 0
        acted = int(active.sum())
        mass = trace.removed_mass(index)[active]
        mean, most = (float(mass.mean()), float(mass.max())) if acted else (0.0, 0.0)
    mattered = True if differ else False if unknown == 0 or not acted else None
    effect = Effect(name, run.effective.get(name), acted, len(trace), mean, most, differ, unknown, mattered, "")
    return replace(effect, sentence=_sentence(effect, len(run.output_ids) - len(trace)))


def _reshaped(trace: Trace, index: int) -> int:
    """Tokens at which a stage changed the distribution: its log-sum-exp moved (a temperature moves all of them)."""
    before = trace.logsumexp if index == 0 else trace.stage_logsumexp[:, index - 1]
    return int((trace.stage_logsumexp[:, index] != before).sum())


def _without(run: Run, trace: Trace, name: str) -> tuple[tuple[int, ...], int | None]:
    """Tokens that would have been others without the parameter, and for how many that can't be known."""
    if name not in MOVABLE:
        return (), None
    old = Setting.of(run.effective)
    prediction = predict(trace, old, replace(old, **{name: getattr(OFF, name)}), ids_before(run))
    known = prediction.choice != UNKNOWN
    return tuple(np.flatnonzero(known & ~prediction.same).tolist()), int((~known).sum())


def ids_before(run: Run) -> tuple[int, ...]:
    """All ids that stood before the first traced token: the prompt, and the beginning a continued reply took over."""
    return run.prompt_ids + run.output_ids[: len(run.output_ids) - run.stats.new_tokens]


def _endings(run: Run, tokens: int) -> list[Effect]:
    names = _ENDINGS.get(run.finish_reason, ()) if run.finish_reason else ()
    asked = [name for name in names if name in run.requested] or list(names[:1])
    sentence = f"It ended the reply after {tokens} tokens."
    return [
        Effect(name, run.effective.get(name), 1, tokens, None, None, (tokens,), 0, mattered=True, sentence=sentence)
        for name in asked
    ]


def _sentence(effect: Effect, taken_over: int) -> str:
    """In words; tokens are counted from the beginning of the reply, the ``taken_over`` ones in front included."""
    if not effect.acted:
        return "Never mattered: it excluded and changed nothing."
    times = f"Acted at {effect.acted} of {effect.tokens} tokens"
    if effect.mean_removed is not None:
        times += (
            f", taking {effect.mean_removed:.1%} of the probability on average and {effect.max_removed:.1%} at most"
        )
    if effect.would_differ:
        first = taken_over + effect.would_differ[0] + 1
        count = len(effect.would_differ)
        choices = (
            f"Without it {count} choice{'s' if count > 1 else ''} would have been another, the first at token {first}."
        )
        open_ = f" For {effect.unknown} more the stored candidates don't tell." if effect.unknown else ""
        return f"{times}. {choices}{open_}"
    if effect.unknown is None:
        return f"{times}."
    if effect.unknown:
        return f"{times}. No choice is known to depend on it; for {effect.unknown} the stored candidates don't tell."
    return f"{times}. Never mattered: every choice would have been the same without it."
