"""The benchmarks' own arithmetic, and the command that starts them."""

from __future__ import annotations

import sys
from subprocess import run as process

from bench.__main__ import PARTS
from bench.report import Figure, alternate, machine, quantile, table


def test_both_sides_are_measured_in_turn_and_the_ratio_is_the_rounds_own() -> None:
    order: list[str] = []
    values = iter(range(1, 100))

    def side(name: str) -> float:
        order.append(name)
        return float(next(values))

    ours, theirs = alternate(lambda: side("a"), lambda: side("b"), 2)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert (ours, theirs) == ([4.0, 5.0], [3.0, 6.0])
    figure = Figure("speed", "tokens/s", ours, "peer", theirs, "≥ 1")
    assert figure.ratio == (4 / 3 + 5 / 6) / 2
    assert "| speed | 4.5 tokens/s (4–5) | 4.5 tokens/s (3–6) (peer) | 1.083 | ≥ 1 |" in table([figure])
    assert figure.as_json()["ours"] == {"median": 4.5, "low": 4.0, "high": 5.0, "n": 2}


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert quantile([1.0], 0.95) == 1.0


def test_a_report_says_where_and_when() -> None:
    told = machine()
    assert told["cores"]
    assert told["torch"]
    assert told["date"].startswith("20")


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    done = process([sys.executable, "-m", "app", "bench", "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"the parts are {', '.join(PARTS)}" in done.stderr
