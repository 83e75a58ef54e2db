"""``python -m bench [PART…]``: measure Fader on this machine, in a data folder of its own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.report import Figure, machine, table

PARTS = (
    "decode",
    "speculation",
    "compare",
    "prefill",
    "schemes",
    "experts",
    "memory",
    "streaming",
    "starting",
    "storage",
)
"""Each a module here; storage is a program of its own."""


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"any of {', '.join(PARTS)}; all when none is named")
    parser.add_argument("--rounds", type=int, default=7, help="alternating measurements of each side (7)")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of a measured reply (128)")
    parser.add_argument("--messages", type=int, default=10_000, help="size of the database in storage (10,000)")
    parser.add_argument(
        "--first-load", action="store_true", help="also measure the very first load, which takes minutes"
    )
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="the figures as JSON, on stdout or to a file"
    )
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    return asked


def measured(asked: argparse.Namespace, home: Path) -> Iterator[Figure]:
    """The figures of the parts asked for; heavy libraries only where they are needed."""
    for part in asked.parts or PARTS:
        if part == "starting":
            from bench import starting

            yield from starting.figures(home, min(3, asked.rounds), first_load=asked.first_load)
        elif part != "storage":
            yield from import_module(f"bench.{part}").figures(home, asked.rounds, asked.tokens)


def storage(messages: int, folder: Path) -> Any:
    """The figures of ``bench.storage``, which is a program of its own."""
    file = folder / "storage.json"
    command = [sys.executable, "-m", "bench.storage", "--messages", str(messages), "--json", str(file)]
    subprocess.run(command, check=True, stdout=sys.stderr, cwd=Path(__file__).parent.parent)
    return json.loads(file.read_text(encoding="utf-8"))


def main() -> None:
    """Measure, and tell as a table, as JSON, or both."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # as ``fader`` does; read when torch is imported
    asked = arguments()
    report: dict[str, Any] = {"machine": machine()}
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for figure in measured(asked, Path(folder) / "home"):
            print(table([figure]).splitlines()[-1], file=sys.stderr, flush=True)
            figures.append(figure)
        if not asked.parts or "storage" in asked.parts:
            report["storage"] = storage(asked.messages, Path(folder))
    report["figures"] = [figure.as_json() for figure in figures]
    text = json.dumps(report, indent=2, ensure_ascii=False)
    if asked.json and asked.json != "-":
        Path(asked.json).write_text(text + "\n", encoding="utf-8")
    print(text if asked.json == "-" else _readable(report, figures))


def _readable(report: dict[str, Any], figures: list[Figure]) -> str:
    where = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    stored = [json.dumps(size, ensure_ascii=False) for size in report.get("storage", {}).get("sizes", ())]
    return "\n".join([f"Measured: {where}", "", table(figures), *stored])


if __name__ == "__main__":
    main()
