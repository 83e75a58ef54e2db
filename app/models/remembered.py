"""What a person has chosen for a model, so that the next start loads it the same way: a small file in the data folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from app.conversation import Json
from app.models import choices
from app.models.options import LoadOptions
from app.models.source import Source, SourceKind

NAME = "models.json"


def options_for(home: Path, source: Source) -> LoadOptions:
    """The options that were chosen for a model, the defaults where none were."""
    return choices.from_json(_read(home).get(key_of(source), {}))


def chosen(home: Path, source: Source) -> bool:
    """Whether something was chosen for it."""
    return key_of(source) in _read(home)


def remember(home: Path, source: Source, options: LoadOptions) -> None:
    """Keep these for the next start; the defaults are kept by forgetting what was there. Raises OSError."""
    kept = _read(home)
    known = {name: value for name, value in kept.items() if name != key_of(source)}
    if options != LoadOptions():
        known[key_of(source)] = choices.as_json(options)
    if known != kept:
        _write(home, known)


def key_of(source: Source) -> str:
    """One name for a model, however it was written: a folder's or a file's whole path, else the name itself."""
    by_path = source.kind in (SourceKind.FOLDER, SourceKind.GGUF) and source.path is not None
    return str(source.path.resolve()) if by_path and source.path else source.name


def _read(home: Path) -> dict[str, dict[str, Json]]:
    """Everything that was chosen; nothing from a file that can't be read."""
    try:
        found = json.loads((home / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = found.items() if isinstance(found, dict) else ()
    return {name: dict(values) for name, values in entries if isinstance(values, dict)}


def _write(home: Path, entries: Mapping[str, Mapping[str, Json]]) -> None:
    """The whole file at once: whoever reads meanwhile sees the old one or the new one."""
    home.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=home, prefix=f".{NAME}-", delete=False, encoding="utf-8") as file:
        json.dump(entries, file, indent=1, ensure_ascii=False)
    try:
        os.replace(file.name, home / NAME)  # noqa: PTH105  (a name, not a path)
    except OSError:
        Path(file.name).unlink(missing_ok=True)
        raise
