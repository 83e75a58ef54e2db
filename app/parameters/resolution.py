"""What a resolution is made of: the wishes, the draft that rules work on, and the finished, explained values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, Protocol, TypeAlias

from app.conversation import Json
from app.models.facts import ModelFacts
from app.parameters.table import BY_NAME

ExplanationKind: TypeAlias = Literal[
    "set", "inherited", "default", "clamped", "ignored", "implied", "conflict", "unused"
]


class Encode(Protocol):
    """Turns text into token ids, special tokens such as </s> recognized, none added."""

    def __call__(self, text: str, /) -> Sequence[int]:
        """The ids of ``text``."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a parameter has its effective value.

    ``source``: set | conversation | preset | model | library | fader | implied. ``active``: False where it can't act on this reply,
    and then ``reason`` says why. ``available``: False where even setting it could not make it act, so that a page disables its
    control. ``kind``: how the value came about, for the page's marks.
    """

    source: str
    reason: str
    active: bool
    kind: ExplanationKind = "default"
    available: bool = True


@dataclass(frozen=True, slots=True)
class Wish:
    """A value before the rules: where it comes from, and whether a person (set, conversation, preset) asked for it."""

    value: Json
    source: str
    reason: str

    @property
    def requested(self) -> bool:
        """True for what a person asked for."""
        return self.source in ("set", "conversation", "preset")


@dataclass
class Draft:
    """A resolution being made; the only mutable thing here, and it never leaves ``resolve``."""

    wishes: dict[str, Wish]
    facts: ModelFacts
    values: dict[str, Json] = field(init=False)
    explained: dict[str, Explanation] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with every wish as it is."""
        self.values = {name: wish.value for name, wish in self.wishes.items()}
        self.explained = {name: _as_wished(wish) for name, wish in self.wishes.items()}

    def requested(self, name: str) -> bool:
        """Whether a person asked for this parameter."""
        return self.wishes[name].requested

    def clamp(self, name: str, value: Json, reason: str) -> None:
        """Change a wish to the nearest value that works; one that nobody uttered is not called clamped."""
        source = self.wishes[name].source
        kind: ExplanationKind = "clamped" if self.requested(name) or source == "model" else "default"
        self._put(name, value, Explanation(source, reason, active=True, kind=kind))

    def imply(self, name: str, value: Json, reason: str) -> None:
        """A value that follows from another one."""
        self._put(name, value, Explanation("implied", reason, active=True, kind="implied"))

    def conflict(self, name: str, value: Json, reason: str) -> None:
        """A wish that lost against another one."""
        self._put(name, value, Explanation(self.wishes[name].source, reason, active=False, kind="conflict"))

    def inactive(
        self, name: str, value: Json, reason: str, kind: ExplanationKind = "unused", *, available: bool = True
    ) -> None:
        """A parameter that can't act."""
        explanation = Explanation(self.wishes[name].source, reason, active=False, kind=kind, available=available)
        self._put(name, value, explanation)

    def tell(self, name: str, reason: str, kind: ExplanationKind | None = None) -> None:
        """A better sentence for a value that stays."""
        old = self.explained[name]
        self.explained[name] = Explanation(old.source, reason, old.active, kind or old.kind, old.available)

    def _put(self, name: str, value: Json, explanation: Explanation) -> None:
        self.values[name] = value
        self.explained[name] = explanation


def _as_wished(wish: Wish) -> Explanation:
    kinds: Mapping[str, ExplanationKind] = {"model": "inherited", "library": "default", "fader": "default"}
    return Explanation(wish.source, wish.reason, active=True, kind=kinds.get(wish.source, "set"))


@dataclass(frozen=True, slots=True)
class Resolution:
    """Every parameter's effective value, its explanation, and the sentences worth a note beside the reply."""

    values: Mapping[str, Json]
    explained: Mapping[str, Explanation]
    notes: tuple[str, ...] = ()

    @property
    def streams(self) -> bool:
        """Whether tokens can be shown as they come."""
        return bool(self.values["num_beams"] == 1)

    def explained_json(self) -> dict[str, Json]:
        """The explanations as plain objects, for the record and the page."""
        return {name: asdict(explanation) for name, explanation in self.explained.items()}

    def generation_kwargs(self, encode: Encode) -> dict[str, Json]:
        """Keyword arguments for ``transformers.GenerationConfig``; see ``app.parameters.sending``. Raises BadParameter."""
        from app.parameters.sending import generation_kwargs

        return generation_kwargs(self.values, encode)


def read_back(prepared: object, resolution: Resolution) -> dict[str, Json]:
    """Effective values as JSON, taken from the GenerationConfig that generate prepared; the rest from the resolution.

    Tensors become numbers or lists, configuration objects become dicts, a None that stands for "off" becomes the off value.
    """
    from app.parameters.sending import CARRIED_OUT_BY_ENGINE, as_json

    values = dict(resolution.values)
    for name, row in BY_NAME.items():
        if not row.own and name not in CARRIED_OUT_BY_ENGINE:
            values[name] = as_json(row, getattr(prepared, name, None))
    return values
