"""Printing for people and for programs, and the exit codes that scripts rely on."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from app.errors import FaderError, RefusedInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.conversation import Json

FAILED = 1
REFUSED = 2
INTERRUPTED = 130


def print_json(value: Json) -> None:
    """One JSON document on stdout, readable and in UTF-8."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Left-aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def human_bytes(count: int) -> str:
    """Bytes with a binary prefix."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


@contextmanager
def exit_codes() -> Iterator[None]:
    """Errors become a sentence on stderr and an exit code: 2 for refused input, 1 for everything that failed."""
    try:
        yield
    except RefusedInput as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from error
    except FaderError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error


class StepPrinter:
    """Progress of a long step on stderr: one line per step, rewritten in place on a terminal, quiet otherwise."""

    def __init__(self) -> None:
        self._what = ""
        self._live = sys.stderr.isatty()

    def __call__(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` units of ``what``; total 0 is unknown."""
        if what != self._what:
            if self._what and self._live:
                sys.stderr.write("\n")
            self._what = what
            sys.stderr.write(f"{what} …" + ("" if self._live else "\n"))
        if self._live and total:
            sys.stderr.write(f"\r{what} … {100 * done // total:3d} %")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._what and self._live:
            sys.stderr.write("\n")
