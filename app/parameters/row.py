"""The shape of one row of the parameter table: everything about a parameter that is data. Imports no torch and no transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from app.conversation import Json
from app.models.facts import ModelFacts

Values: TypeAlias = Mapping[str, Json]
"""Every parameter's value by name, as far as it has been decided."""

Predicate: TypeAlias = Callable[[Values, ModelFacts], str | None]
"""None where a parameter can act; else a sentence that says why it can't."""

Control: TypeAlias = Literal[
    "slider",
    "log_slider",
    "switch",
    "number",
    "choice",
    "texts",
    "tokens",
    "token",
    "rows",
    "pair",
    "json",
    "form",
    "text",
    "readonly",
]

Kind: TypeAlias = Literal[
    "int",
    "float",
    "bool",
    "choice",
    "text",
    "texts",
    "token",
    "tokens",
    "phrases",
    "rows",
    "pair",
    "json",
    "watermark",
    "compile",
    "format",
]
"""How a value is checked. ``token``: a text or an id; ``tokens``: a list of those; ``phrases``: a list of texts or lists of ids;
``rows``: a list of [text or ids, bias]; ``pair``: [start, factor]."""


class Group(StrEnum):
    """The groups of the transformers documentation, in its order, and Fader's own."""

    LENGTH = "Length"
    STRATEGY = "Strategy"
    CACHE = "Cache"
    LOGITS = "Logits"
    OUTPUTS = "Outputs"
    SPECIAL_TOKENS = "Special tokens"
    ENCODER_DECODER = "Encoder–decoder"
    ASSISTED = "Assisted generation"
    PERFORMANCE = "Performance"
    OWN = "Fader"

    @property
    def heading(self) -> str:
        """The group's title as the documentation words it."""
        return _HEADINGS[self]


_HEADINGS: Mapping[Group, str] = {
    Group.LENGTH: "Parameters that control the length of the output",
    Group.STRATEGY: "Parameters that control the generation strategy used",
    Group.CACHE: "Parameters that control the cache",
    Group.LOGITS: "Parameters for manipulation of the model output logits",
    Group.OUTPUTS: "Parameters that define the output variables of generate",
    Group.SPECIAL_TOKENS: "Special tokens that can be used at generation time",
    Group.ENCODER_DECODER: "Generation parameters exclusive to encoder-decoder models",
    Group.ASSISTED: "Generation parameters exclusive to assistant generation",
    Group.PERFORMANCE: "Parameters related to performance and compilation",
    Group.OWN: "Fader's own parameters",
}


def always(_values: Values, _facts: ModelFacts) -> str | None:
    """The predicate of a parameter that can always act."""
    return None


@dataclass(frozen=True, slots=True)
class SliderRange:
    """The ends and the step that a slider can really take, exclusive bounds already moved inside."""

    low: float
    high: float
    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter. Page, validation, command line, presets, the stored record and docs/parameters.md derive from it.

    ``minimum``/``maximum`` are what is accepted (exclusive where ``above_minimum``/``below_maximum``); ``limit`` is the model's
    own upper bound, to which a larger wish is clamped. ``slider_high`` is where the slider ends if neither gives a handy end;
    ``log_low`` the smallest non-zero position of a log slider. ``off`` does nothing when sent; ``off_as_none`` marks a number
    whose off value ``generate`` knows only as None. ``library_default`` is what the installed transformers uses for an unset
    field (None: nothing). ``refused``: where it can't act, a direct request is an error rather than ignored. ``neutral``: part
    of "Neutralize". ``null_is_unset``: null asks for the model's own value or a random one, as if nothing had been set.
    """

    name: str
    group: Group
    kind: Kind
    control: Control
    help: str
    paper: str | None = None
    off: Json = None
    off_as_none: bool = False
    library_default: Json = None
    fader_default: Json = None
    minimum: float | None = None
    maximum: float | None = None
    above_minimum: bool = False
    below_maximum: bool = False
    step: float | None = None
    slider_high: float | None = None
    log_low: float | None = None
    limit: Callable[[ModelFacts], int] | None = None
    limit_name: str = ""
    choices: tuple[Json, ...] = ()
    applies: str = "always"
    applies_when: Predicate = always
    conflicts_with: tuple[str, ...] = ()
    streams: bool = True
    refused: bool = False
    neutral: bool = True
    null_is_unset: bool = False

    @property
    def own(self) -> bool:
        """True for Fader's own rows, which are no field of GenerationConfig."""
        return self.group is Group.OWN

    @property
    def unset_value(self) -> Json:
        """What acts when neither the user nor the model says anything."""
        for value in (self.fader_default, self.library_default):
            if value is not None:
                return value
        return self.off

    def maximum_for(self, facts: ModelFacts | None) -> float | None:
        """The upper end with this model: the smaller of the table's and the model's."""
        limits = [v for v in (self.maximum, self.limit(facts) if self.limit and facts else None) if v is not None]
        return min(limits) if limits else None

    def slider(self, facts: ModelFacts | None = None) -> SliderRange:
        """Ends and step for a slider. Raises ValueError for a row without a step."""
        if self.step is None:
            raise ValueError(f"{self.name} has no slider")
        low = (self.minimum or 0) + (self.step if self.above_minimum else 0)
        high = self.maximum_for(facts)
        high = self.slider_high if high is None or (self.slider_high and self.slider_high < high) else high
        high = low if high is None else high - (self.step if self.below_maximum else 0)
        return SliderRange(low, max(low + self.step, high), self.step)

    def range_text(self, facts: ModelFacts | None = None) -> str:
        """The accepted values in words, for messages: "a number from 0 to 5"."""
        if self.kind not in ("int", "float"):
            return _SHAPES[self.kind].format(choices=", ".join(map(_shown, self.choices)))
        noun = "a whole number" if self.kind == "int" else "a number"
        return f"{noun}{self._low_text()}{self._high_text(facts)}"

    def _low_text(self) -> str:
        if self.minimum is None:
            return ""
        return f" {'above' if self.above_minimum else 'from'} {self.minimum:g}"

    def _high_text(self, facts: ModelFacts | None) -> str:
        high = self.maximum_for(facts)
        if high is None:
            return f", at most {self.limit_name}" if self.limit_name else ""
        shown = f"{high:.0f}" if self.kind == "int" else f"{high:g}"
        return f"{' and below' if self.below_maximum else ' to'} {shown}"


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else {None: "null", True: "true", False: "false"}[value]


_SHAPES: Mapping[Kind, str] = {
    "bool": "true or false",
    "choice": "one of {choices}",
    "text": "a text",
    "texts": "a list of texts",
    "token": "one token, as text or as its id",
    "tokens": "a list of tokens, each as text or as its id",
    "phrases": "a list of texts, or of lists of token ids",
    "rows": "a list of rows [text or token ids, bias]",
    "pair": "two numbers [start, factor]: start a whole number from 0, factor above 0",
    "json": "a JSON object",
    "watermark": 'an object with kind "greenlist" (greenlist_ratio, bias, hashing_key, seeding_scheme, context_width) '
    'or "synthid" (keys, ngram_len, …)',
    "compile": "an object with backend, mode, fullgraph, dynamic, options",
    "format": 'an object: {{"kind": "json_schema", "schema": …}}, {{"kind": "regex", "pattern": …}} '
    'or {{"kind": "choices", "choices": […]}}',
}
