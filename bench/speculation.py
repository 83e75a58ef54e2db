"""What prompt lookup gains on a reply that copies and what it loses on one that doesn't, seconds against seconds for the same text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

from app.engine.engine import Engine
from app.models.source import BUILTIN
from bench.parts import engine_with_model, exactly, reply, said
from bench.report import Figure, alternate

CODE = Path(__file__).with_name("llama.py")
COPY = "Print this code again, unchanged:\n```python\n{}\n```"
STORY = "Write a long story about a lighthouse keeper and the sea."
QUESTIONS = ("What is 2 + 2?", "Name a colour.", "Say hello.")
GUESSES = 7
SHORT = 12
"""Tokens of a short reply."""
FREE = {"repetition_penalty": 1.0}
"""A penalty on what is there already keeps a reply from copying it."""


def figures(home: Path, rounds: int, tokens: int) -> Iterator[Figure]:
    """Both, one after the other."""
    with engine_with_model(home) as engine:
        copied = COPY.format(CODE.read_text(encoding="utf-8"))
        yield lookup(engine, "code that is printed again", copied, rounds, tokens, "< 1")
        yield lookup(engine, "a story, where little repeats", STORY, rounds, tokens, "≤ 1.05")
        yield slow_draft(engine, rounds)


def lookup(engine: Engine, name: str, question: str, rounds: int, tokens: int, goal: str) -> Figure:
    """Seconds for a reply with prompt lookup against the same without."""
    ours, theirs = alternate(
        partial(_seconds, engine, question, tokens, GUESSES), partial(_seconds, engine, question, tokens, 0), rounds
    )
    return Figure(f"prompt lookup: {name}", "s", ours, "without", theirs, goal)


def slow_draft(engine: Engine, rounds: int) -> Figure:
    """Short replies beside a draft that can't gain anything, being the model itself, against the same without it."""
    ours, theirs = alternate(partial(_short, engine, BUILTIN), partial(_short, engine, None), rounds)
    return Figure("short replies beside a draft as slow as the model", "s", ours, "without", theirs, "≤ 1.05")


def _short(engine: Engine, draft: str | None) -> float:
    job = engine.load_draft(draft) if draft else engine.unload_draft()
    job.finished.wait()
    return sum(_seconds(engine, question, SHORT, 0) for question in QUESTIONS)


def _seconds(engine: Engine, question: str, tokens: int, guesses: int) -> float:
    begun = perf_counter()
    ended = reply(engine, said(question), {**exactly(tokens), **FREE, "prompt_lookup_num_tokens": guesses})
    waited = ended.run.stats.ttft_s or 0.0
    return perf_counter() - begun - waited
