"""A comparison of eight settings side by side against one reply, and how often a batch of the library's forward agrees with single runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from app.conversation import new_id
from app.engine.engine import Engine
from app.engine.events import Ended
from app.engine.fast.decoding import Trial
from app.engine.run import RunRequest
from app.insight.replay import alone_claim
from bench.parts import NEVER, engine_with_model, said
from bench.report import Figure, alternate

QUESTION = "Write a long story about a lighthouse keeper and the sea."
TEMPERATURES = (0, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4, 2.0)
OFTEN = 2
"""Rounds of what takes long and is measured beside."""


def figures(home: Path, rounds: int, tokens: int) -> Iterator[Figure]:
    """All figures of this module, one after the other."""
    with engine_with_model(home) as engine:
        yield batch(engine, rounds, tokens, "fast step")
        with _library(engine):
            yield batch(engine, min(OFTEN, rounds), tokens, "the library’s forward")
            yield agreement(engine, tokens)


def _requests(tokens: int) -> list[RunRequest]:
    asked = {"seed": 1, "max_new_tokens": tokens, "eos_token_id": NEVER}
    messages = tuple(said(QUESTION))
    empty = RunRequest(new_id(), "", new_id(), messages=messages)
    return [replace(empty, run_id=new_id(), requested={**asked, "temperature": t}) for t in TEMPERATURES]


def _together(engine: Engine, requests: list[RunRequest]) -> tuple[float, list[Ended]]:
    """Seconds that these replies take, and what came of them."""
    begun = perf_counter()
    ends = [run.result() for run in engine.submit_together(requests)]
    seconds = perf_counter() - begun
    if failed := next((end.run.error for end in ends if end.run.error), None):
        raise RuntimeError(failed)
    return seconds, ends


def batch(engine: Engine, rounds: int, tokens: int, by: str) -> Figure:
    """Eight replies against one of them."""
    ours, theirs = alternate(
        lambda: _together(engine, _requests(tokens))[0], lambda: _together(engine, _requests(tokens)[3:4])[0], rounds
    )
    return Figure(f"8 settings side by side, {tokens} tokens each ({by})", "s", ours, "one", theirs, "well under 8")


def agreement(engine: Engine, tokens: int) -> Figure:
    """At how many positions a single run takes the token that the batch took, its own text given."""
    _, ends = _together(engine, _requests(tokens))
    job = engine.check_alone({end.run.id: alone_claim(end.run) for end in ends}, lambda _run_id, _found: None)
    job.finished.wait()
    if job.error:
        raise job.error
    shares: list[Any] = [100 * found.share for found in job.found.values()]
    return Figure("positions at which the library’s batch and a single run agree", "%", shares, goal="≥ 98")


@contextmanager
def _library(engine: Engine) -> Iterator[None]:
    """Without the fast step."""
    beside = engine.held.beside
    kept, beside.trial = beside.trial, Trial()
    try:
        yield
    finally:
        beside.trial = kept
