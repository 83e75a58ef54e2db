"""Where a model comes from: a frozen description that names files but has read none of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

BUILTIN = "builtin"


class SourceKind(StrEnum):
    """The five things a model's name can mean."""

    BUILTIN = "builtin"
    FOLDER = "folder"
    GGUF = "gguf"
    HUB = "hub"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class Source:
    """``name`` as the user wrote it, ``label`` for the page; ``path`` is a folder or a GGUF file, None for a hub id and for a model on
    a server.

    A built-in model's path is its GGUF file, None when its package isn't installed.
    """

    name: str
    kind: SourceKind
    label: str
    path: Path | None = None
