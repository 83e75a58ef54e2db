"""Conversations going out and coming in, as values: formats, and a report that leaves no doubt about what was imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from app.conversation import Json


class ExportFormat(StrEnum):
    """What conversations can be written as. Only ``FADER_JSON`` keeps everything; the others hold the branch on display."""

    FADER_JSON = "json"
    MARKDOWN = "md"
    HTML = "html"
    OPENAI_JSONL = "jsonl"


class Outcome(StrEnum):
    """What became of one conversation of an imported file."""

    IMPORTED = "imported"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ImportItem:
    """One conversation of an imported file; ``reason`` says why it was skipped or failed, or what was left out of it."""

    title: str
    outcome: Outcome
    reason: str = ""
    conversation_id: str | None = None
    messages: int = 0


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of a file, conversation by conversation, in the file's order. ``format``: a name for people."""

    format: str
    items: tuple[ImportItem, ...]

    def count(self, outcome: Outcome) -> int:
        """How many conversations had that outcome."""
        return Counter(item.outcome for item in self.items)[outcome]

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in Outcome)
        return f"{self.format}: {counts}."

    def as_json(self) -> dict[str, Json]:
        """The report as JSON."""
        return {
            "format": self.format,
            **{outcome.value: self.count(outcome) for outcome in Outcome},
            "conversations": [
                {
                    "title": item.title,
                    "outcome": item.outcome.value,
                    "reason": item.reason,
                    "conversation_id": item.conversation_id,
                    "messages": item.messages,
                }
                for item in self.items
            ],
        }


class Transfer(Protocol):
    """Export and import, as the store offers them."""

    def export(self, form: ExportFormat, conversation_ids: Sequence[str] | None = None) -> Iterator[str]:
        """The text of an export, piece by piece; without ids everything (Fader JSON: the trash too). Raises NotFound."""

    def export_file(
        self, file: Path, conversation_ids: Sequence[str] | None = None, form: ExportFormat | None = None
    ) -> None:
        """Write an export (``form`` defaults to what the file's name ends in)."""

    def import_file(self, file: Path) -> ImportReport:
        """Add a file's conversations to those that are here; never replaces one. Raises NotFound, RefusedInput."""
