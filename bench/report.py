"""How everything in here is measured and told: alternating runs against a peer, medians with their spread, a table and JSON.

On a machine that others use too, one long run of each says nothing. Each round measures both sides, in turn one or the other first,
and the ratio is the median of the rounds' own ratios.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

LIBRARIES = ("torch", "transformers", "bitsandbytes", "gradio", "sqlite-utils")


@dataclass(frozen=True)
class Figure:
    """One thing measured, ``ours`` in ``unit``; with ``theirs``, what the peer did in the same rounds."""

    name: str
    unit: str
    ours: Sequence[float]
    peer: str = ""
    theirs: Sequence[float] = ()
    goal: str = ""

    @property
    def ratio(self) -> float | None:
        """The median over the rounds of ours by theirs."""
        ratios = [mine / other for mine, other in zip(self.ours, self.theirs, strict=False) if other]
        return statistics.median(ratios) if ratios else None

    def as_json(self) -> dict[str, Any]:
        """Everything, rounded to what means something."""
        told: dict[str, Any] = {"name": self.name, "unit": self.unit, "ours": _summary(self.ours), "goal": self.goal}
        if self.theirs:
            told |= {"peer": self.peer, "theirs": _summary(self.theirs), "ratio": round(self.ratio or 0.0, 4)}
        return told


def alternate(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> tuple[list[float], list[float]]:
    """Measure both ``rounds`` times, each round in the other order, after one round that doesn't count."""
    ours(), theirs()
    mine, others = [], []
    for number in range(rounds):
        first, second = (ours, theirs) if number % 2 else (theirs, ours)
        a, b = first(), second()
        mine.append(a if number % 2 else b)
        others.append(b if number % 2 else a)
    return mine, others


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _summary(values: Sequence[float]) -> dict[str, Any]:
    """Median, lowest, highest and how many."""
    return {
        "median": _short(statistics.median(values)),
        "low": _short(min(values)),
        "high": _short(max(values)),
        "n": len(values),
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def machine() -> dict[str, Any]:
    """Where and when: processor, memory, load, versions, commit."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load": [round(x, 1) for x in psutil.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{library: version(library) for library in LIBRARIES},
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    root = Path(__file__).parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    rows = ["| | Fader | peer | ratio | goal |", "|---|---|---|---|---|"]
    for figure in figures:
        peer = f"{_cell(figure.theirs, figure.unit)} ({figure.peer})" if figure.theirs else ""
        ratio = f"{figure.ratio:.3f}" if figure.ratio is not None else ""
        rows.append(f"| {figure.name} | {_cell(figure.ours, figure.unit)} | {peer} | {ratio} | {figure.goal} |")
    return "\n".join(rows)


def _cell(values: Sequence[float], unit: str) -> str:
    told = _summary(values)
    spread = f" ({told['low']:g}–{told['high']:g})" if len(values) > 1 else ""
    return f"{told['median']:g} {unit}{spread}"
