"""The number of threads follows what the machine has to spare, and comes back when it has more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.engine.fast.tempo import EVERY, SPAN, Tempo

QUIET: dict[int, dict[int, float]] = {2: {1: 1.5, 2: 1.0}, 8: {1: 6.0, 4: 1.8, 7: 1.1, 8: 1.0}}
ONE_CORE_LESS: dict[int, dict[int, float]] = {2: {1: 1.6, 2: 3.0}, 8: {1: 6.0, 4: 1.9, 7: 1.2, 8: 3.0}}
CROWDED: dict[int, dict[int, float]] = {2: {1: 2.0, 2: 9.0}, 8: {1: 7.0, 4: 2.5, 7: 4.0, 8: 9.0}}
ROUND = 4 * (EVERY + 2 * SPAN)
"""Steps after which every number near the present one has been tried."""


def write(tempo: Tempo, seconds: Callable[[int], float], steps: int) -> float:
    """Share of the steps that took the quickest number of threads."""
    best = min(range(1, tempo.most + 1), key=seconds)
    hits = 0
    for _ in range(steps):
        hits += tempo.threads == best
        tempo.took(seconds(tempo.threads))
    return hits / steps


@pytest.mark.parametrize("most", QUIET)
def test_it_follows_the_machine_there_and_back(most: int) -> None:
    tempo = Tempo(most, most)
    for weather in (QUIET, ONE_CORE_LESS, CROWDED, ONE_CORE_LESS, QUIET):
        times = weather[most]
        write(tempo, lambda n, times=times: times.get(n, 99.0), ROUND)  # type: ignore[misc]
        assert write(tempo, lambda n, times=times: times.get(n, 99.0), ROUND) > 0.75, weather  # type: ignore[misc]


def test_a_crowd_is_noticed_within_the_first_steps_of_a_reply() -> None:
    tempo = Tempo(2, 2)
    write(tempo, CROWDED[2].__getitem__, 2 * SPAN)
    assert tempo.threads == 1


def test_noise_changes_nothing() -> None:
    tempo, times = Tempo(2, 2), iter(range(10_000))
    write(tempo, lambda _n: 1.0 + (next(times) * 7 % 5) / 100, ROUND)
    assert tempo.threads == 2


def test_one_thread_is_left_alone() -> None:
    tempo = Tempo(1, 1)
    write(tempo, lambda _n: 1.0, ROUND)
    assert tempo.threads == 1
