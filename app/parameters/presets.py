"""Named sets of parameters: the shipped ones, "neutral", and files that people exchange. A preset holds only what it sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from app.conversation import Json
from app.errors import RefusedInput
from app.parameters.table import TABLE
from app.parameters.validate import problems, validate

MAX_FILE_CHARS = 1_000_000
_FORMAT = "fader-preset"


@dataclass(frozen=True, slots=True)
class Preset:
    """A name, one sentence on what it is for, and the values it sets."""

    name: str
    description: str
    parameters: Mapping[str, Json]

    def giving(self, requested: Mapping[str, Json]) -> frozenset[str]:
        """The names in ``requested`` whose value is this preset's."""
        return frozenset(
            name for name, value in requested.items() if name in self.parameters and self.parameters[name] == value
        )


@dataclass(frozen=True, slots=True)
class PresetReport:
    """What a preset file held: the values that can be used, and for each of the others the reason why not."""

    good: dict[str, Json]
    problems: dict[str, str]
    name: str = ""
    description: str = ""


@cache
def shipped() -> tuple[Preset, ...]:
    """The presets that come with Fader, in the order of their file names."""
    folder = resources.files("assets") / "presets"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".json")), key=lambda entry: entry.name)
    return tuple(_shipped(file.read_text(encoding="utf-8")) for file in files)


def _shipped(text: str) -> Preset:
    report = load_preset_file(text)
    return Preset(report.name, report.description, report.good)


def neutral() -> dict[str, Json]:
    """Everything at its off value, so that the model's bare distribution is left; what has no "off" keeps the model's value."""
    return {row.name: row.off for row in TABLE if row.neutral}


def load_preset_file(text: str) -> PresetReport:
    """Read an exported preset, or a plain JSON object of parameters; unknown and bad values are named, the rest is loaded.

    Raises RefusedInput for a text that is no JSON object at all.
    """
    found = _object(text)
    values = found["parameters"] if isinstance(found.get("parameters"), dict) else found
    values = {name: value for name, value in values.items() if values is not found or name not in _LABELS}
    bad = problems(values)
    good = validate({name: value for name, value in values.items() if name not in bad})
    return PresetReport(good, bad, _label(found, "name"), _label(found, "description"))


_LABELS = ("format", "name", "description")


def _object(text: str) -> dict[str, Json]:
    if len(text) > MAX_FILE_CHARS:
        raise RefusedInput(f"This file is too large for a preset ({len(text)} characters).")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedInput(f"This file is no preset: it is not JSON ({error}).") from None
    if not isinstance(found, dict):
        raise RefusedInput("This file is no preset: it holds no JSON object.")
    return found


def _label(found: Mapping[str, Json], field: str) -> str:
    value = found.get(field, "")
    return value if isinstance(value, str) else ""


def export_preset(name: str, parameters: Mapping[str, Json], description: str = "") -> str:
    """The text of a preset file that holds only ``parameters``. Raises BadParameter for values that couldn't be loaded again."""
    body = {"format": _FORMAT, "name": name, "description": description, "parameters": validate(parameters)}
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
