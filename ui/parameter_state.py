"""What the page shows of the parameters: each one's effective value in words, where it comes from and why, before anything is sent.

Pure: set values and a model's facts in, plain JSON out. Never raises for a bad value: it says what is wrong beside its control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from app.conversation import Json
from app.errors import BadParameter
from app.models.facts import ModelFacts
from app.parameters.presets import Preset, neutral
from app.parameters.resolve import Explanation, Resolution, resolve
from app.parameters.row import Parameter
from app.parameters.table import TABLE
from app.parameters.validate import check, problems

TokenText: TypeAlias = Callable[[int], str]
"""A token id in words; the id itself where no model is loaded."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``requested``: the set values that are right, converted. ``problems``: why the others aren't. ``resolution`` of the right ones."""

    requested: Mapping[str, Json]
    problems: Mapping[str, str]
    resolution: Resolution


def answer(given: Mapping[str, Json], facts: ModelFacts | None, preset: Preset | None = None) -> Answer:
    """Check and resolve the set values; one that is refused is left out and named. Those of ``preset`` are told apart."""
    wrong = problems(given, facts)
    right = {name: check(name, value, facts) for name, value in given.items() if name not in wrong}
    while True:
        try:
            resolve(right, facts)  # as if all were set by hand: what would be refused then is refused from a preset too
        except BadParameter as error:
            if error.name not in right:
                raise
            wrong[error.name] = error.why
            del right[error.name]
        else:
            sources = dict.fromkeys(preset.giving(right), "preset") if preset else {}
            return Answer(right, wrong, resolve(right, facts, sources=sources))


def view(found: Answer, given: Mapping[str, Json], token_text: TokenText) -> dict[str, Json]:
    """The answer as JSON for assets/parameters: ``rows`` by name, ``notes``, and the ``summary`` of what acts."""
    return {
        "requested": dict(found.requested),
        "rows": {row.name: _row_view(row, found, given, token_text) for row in TABLE},
        "notes": list(found.resolution.notes),
        "streams": found.resolution.streams,
        "mode": mode(found.resolution),
        "summary": list(_summary(found.resolution, token_text)),
    }


def _row_view(row: Parameter, found: Answer, given: Mapping[str, Json], token_text: TokenText) -> dict[str, Json]:
    told = found.resolution.explained[row.name]
    value = found.resolution.values[row.name]
    problem = found.problems.get(row.name)
    return {
        "set": row.name in given,
        "text": "refused" if problem else effective_text(row, value, told, token_text),
        "source": told.source,
        "kind": told.kind,
        "reason": told.reason,
        "problem": problem,
        "off": row.name not in given and value == row.off,
        "active": told.active,
        "available": told.available,
        "form": given[row.name].get("kind") if row.control == "form" and row.name in given else None,
        "told": problem is not None or _worth_telling(row, value, told),
    }


def _worth_telling(row: Parameter, value: Json, told: Explanation) -> bool:
    """Whether the reason stands below the control, or only among its details."""
    if told.kind in ("clamped", "ignored", "conflict", "implied") or not told.available:
        return True
    if told.kind in ("inherited", "default"):
        return told.active and value != row.off
    return told.kind == "set" and not told.active


_INSTEAD: Mapping[str, str] = {"ignored": "ignored", "implied": "greedy", "unused": "–", "set": "–"}


def effective_text(row: Parameter, value: Json, told: Explanation, token_text: TokenText) -> str:
    """An effective value in a few characters; for one that can't act, that instead."""
    if not told.active and told.kind in _INSTEAD:
        return _INSTEAD[told.kind]
    return value_text(row, value, token_text)


def value_text(row: Parameter, value: Json, token_text: TokenText) -> str:
    """A value in words: on and off, a token as its text, a list as its members or their number."""
    if value is None:
        return "model’s" if row.null_is_unset else "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if row.kind in ("token", "tokens"):
        tokens = value if isinstance(value, list) else [value]
        return ", ".join(token_text(t) if isinstance(t, int) else t for t in tokens) or "none"
    return _structured_text(value)


def _structured_text(value: Json) -> str:
    if isinstance(value, dict):
        return str(value.get("kind") or value.get("mode") or f"{len(value)} fields").replace("_", " ")
    if isinstance(value, list):
        return ", ".join(map(_member, value)) if len(value) <= 2 else f"{len(value)} entries"
    return str(value).replace("_", " ") if value != "" else "none"


def _member(item: Json) -> str:
    if isinstance(item, list):
        return " ".join(map(_member, item))
    return f"{item:g}" if isinstance(item, float) else str(item).replace("\n", "↵")


def mode(resolution: Resolution) -> str:
    """How the next token is chosen, in two words."""
    beams, sampled = resolution.values["num_beams"], resolution.values["do_sample"]
    if sampled is None:
        return "As the server does"
    if beams > 1:
        return f"{beams} beams, sampled" if sampled else f"{beams} beams"
    return "Sampling" if sampled else "Greedy"


def _summary(resolution: Resolution, token_text: TokenText) -> Iterator[dict[str, Json]]:
    """Only what differs from off and acts."""
    for row in TABLE:
        value, told = resolution.values[row.name], resolution.explained[row.name]
        if told.active and value != row.off:
            text = value_text(row, value, token_text)
            yield {"name": row.name, "text": text, "source": told.source, "kind": told.kind, "reason": told.reason}


def neutralizing(facts: ModelFacts | None) -> dict[str, Json]:
    """What must be set so that no parameter acts: the off values that nothing unset has already."""
    unset = resolve({}, facts).values
    return {name: off for name, off in neutral().items() if unset[name] != off}
