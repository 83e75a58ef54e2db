"""Tokens per second of the engine against ``generate``, what the trace costs, and what the prefix cache saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from app.conversation import Message
from app.engine.engine import Engine
from bench import llama
from bench.parts import NEVER, engine_with_model, exactly, raw_speed, reply, said
from bench.report import Figure, alternate

QUESTION = "Write a long story about a lighthouse keeper and the sea."
LONG = " ".join(["Tell me what the sea was like that night, and what the keeper thought of it."] * 60)
TRACED = 20
"""Alternatives recorded for each token in the comparison."""
TURNS, WORDS = 10, 98
"""Turns and words of each message, so that the whole conversation has about 2,000 tokens."""


def figures(home: Path, rounds: int, tokens: int) -> Iterator[Figure]:
    """All figures of this module, one after the other."""
    with engine_with_model(home) as engine:
        yield decoding(engine, rounds, tokens)
        if llama.there():
            yield from against_llama(engine, rounds, tokens)
            yield sampling(engine, rounds, tokens)
        yield tracing(engine, rounds, tokens)
        yield tenth_turn(engine, rounds)


def speed(engine: Engine, tokens: int, trace_top_k: int = 0, question: str = QUESTION) -> float:
    """Tokens per second of a reply after its first token."""
    measured = reply(engine, said(question), {**exactly(tokens), "trace_top_k": trace_top_k}).run.stats.tokens_per_s
    assert measured is not None  # noqa: S101  (a reply of more than one token has a speed)
    return measured


def decoding(engine: Engine, rounds: int, tokens: int) -> Figure:
    """The engine against the library."""
    prompt = reply(engine, said(QUESTION), exactly(2)).run.prompt_ids
    ours, theirs = alternate(lambda: speed(engine, tokens), lambda: raw_speed(engine, prompt, tokens), rounds)
    return Figure("decoding", "tokens/s", ours, "model.generate", theirs, "≥ 0.97")


def against_llama(engine: Engine, rounds: int, tokens: int) -> Iterator[Figure]:
    """The engine, trace on, against llama.cpp, after a short question and after a long text."""
    for name, question in (("short", QUESTION), ("long", LONG)):
        prompt = reply(engine, said(question), exactly(2)).run.prompt_ids
        ours, theirs = alternate(
            lambda question=question: speed(engine, tokens, TRACED, question),  # type: ignore[misc]
            lambda prompt=prompt: llama.speed(prompt, tokens),  # type: ignore[misc]
            rounds,
        )
        what = f"decoding with a trace, {name} prompt ({len(prompt):,})"
        yield Figure(what, "tokens/s", ours, "llama.cpp", theirs, "≥ 1.0")


def sampling(engine: Engine, rounds: int, tokens: int) -> Figure:
    """What a chat does that nobody has set anything in: sampling as the model's card says, with a trace."""
    asked = {"max_new_tokens": tokens, "eos_token_id": NEVER, "trace_top_k": TRACED, "seed": 1}
    prompt = reply(engine, said(QUESTION), exactly(2)).run.prompt_ids
    ours, theirs = alternate(
        lambda: reply(engine, said(QUESTION), asked).run.stats.tokens_per_s or 0.0,
        lambda: llama.speed(prompt, tokens, llama.CHAT),
        rounds,
    )
    return Figure("decoding as a chat samples, with a trace", "tokens/s", ours, "llama.cpp", theirs, "≥ 1.0")


def tracing(engine: Engine, rounds: int, tokens: int) -> Figure:
    """With a trace against without one."""
    ours, theirs = alternate(lambda: speed(engine, tokens, TRACED), lambda: speed(engine, tokens), rounds)
    return Figure(f"decoding with a trace of {TRACED}", "tokens/s", ours, "without", theirs)


def conversation() -> list[Message]:
    """Ten turns; the last message is the tenth question."""
    vocabulary = [
        "the",
        "sea",
        "and",
        "a",
        "lamp",
        "that",
        "turns",
        "all",
        "night",
        "for",
        "ships",
        "far",
        "out",
        "on",
        "dark",
        "water",
    ]
    texts = [
        " ".join(vocabulary[(place * 7 + word * (place + 1)) % len(vocabulary)] for word in range(WORDS))
        for place in range(2 * TURNS - 1)
    ]
    return said(*texts)


def tenth_turn(engine: Engine, rounds: int) -> Figure:
    """Time to first token of the last turn after the turn before it and a pause, against the same without anything kept."""
    *before, scripted, question = conversation()

    def ninth() -> Message:
        """The turn before, whose reply is the scripted one and two tokens more."""
        return replace(scripted, content=reply(engine, before, exactly(2), beginning=scripted.content).text)

    messages = [*before, ninth(), question]

    def first_token() -> float:
        measured = reply(engine, messages, exactly(2)).run.stats.ttft_s
        assert measured is not None  # noqa: S101
        return measured

    def kept() -> float:
        engine.held.blocks.clear()
        ninth()
        engine.settle()
        return first_token()

    def fresh() -> float:
        engine.held.blocks.clear()
        return first_token()

    ours, theirs = alternate(kept, fresh, rounds)
    length = len(reply(engine, messages, exactly(2)).run.prompt_ids)
    return Figure(
        f"first token of turn {TURNS}, {length:,} tokens of prompt", "s", ours, "nothing kept", theirs, "≤ 0.15"
    )
