"""A run by itself: its states in the one order there is, its numbered log, and an end that is the end."""

from __future__ import annotations

from itertools import product
from threading import Thread

import pytest

from app.conversation import Run, RunStatus, new_id
from app.engine.events import Ended, Progress, StatusChanged, TextDelta
from app.engine.run import LiveRun, RunRequest

ORDER = (RunStatus.QUEUED, RunStatus.LOADING, RunStatus.PREFILL, RunStatus.GENERATING)
ENDS = (RunStatus.DONE, RunStatus.STOPPED, RunStatus.FAILED)


def run_in(state: RunStatus) -> LiveRun:
    run = LiveRun(RunRequest(new_id(), "", new_id(), ()))
    for status in ORDER[1 : ORDER.index(state) + 1]:
        run.append(StatusChanged(status))
    assert run.status is state
    return run


def end_of(run: LiveRun, status: RunStatus) -> Ended:
    return Ended(Run(run.id, run.request.message_id, status), run.text())


@pytest.mark.parametrize(("before", "after"), list(product(ORDER, ORDER)))
def test_a_run_moves_on_and_never_back(before: RunStatus, after: RunStatus) -> None:
    run = run_in(before)
    without_loading = (before, after) == (RunStatus.QUEUED, RunStatus.PREFILL)  # the model is there already
    if ORDER.index(after) in (ORDER.index(before), ORDER.index(before) + 1) or without_loading:
        run.append(StatusChanged(after, "again, or further"))
        assert run.status is after
    else:
        with pytest.raises(ValueError, match=f"can't go from {before} to {after}"):
            run.append(StatusChanged(after))
        assert run.status is before


@pytest.mark.parametrize(("state", "end"), list(product(ORDER, ENDS)))
def test_it_can_end_in_every_state_and_nothing_comes_after(state: RunStatus, end: RunStatus) -> None:
    run = run_in(state)
    run.append(end_of(run, end))
    assert run.status is end
    log = run.read()
    for event in (TextDelta("late"), StatusChanged(RunStatus.GENERATING), end_of(run, RunStatus.DONE)):
        with pytest.raises(ValueError, match="after the end"):
            run.append(event)
    assert run.read() == log


def test_numbers_have_no_gaps_and_a_reader_that_comes_back_goes_on_where_it_was() -> None:
    run = run_in(RunStatus.GENERATING)
    half = run.read()
    for piece in "abc":
        run.append(TextDelta(piece))
    run.append(Progress("tokens", 3, 3))
    run.append(end_of(run, RunStatus.DONE))
    rest = run.read(after=len(half))
    assert [number for number, _ in (*half, *rest)] == list(range(1, len(half) + len(rest) + 1))
    assert list(run.events(after=len(half))) == list(rest)
    assert list(run.events()) == [*half, *rest]


def test_a_reader_waits_for_what_is_not_there_yet() -> None:
    run = run_in(RunStatus.GENERATING)
    seen: list[object] = []
    reader = Thread(target=lambda: seen.extend(event for _, event in run.events()))
    reader.start()
    run.append(TextDelta("a"))
    run.append(end_of(run, RunStatus.DONE))
    reader.join(10)
    assert not reader.is_alive()
    assert seen == [event for _, event in run.read()]


def test_the_result_is_not_waited_for_for_ever() -> None:
    with pytest.raises(TimeoutError):
        run_in(RunStatus.PREFILL).result(0.01)
