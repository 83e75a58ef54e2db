"""Brings a run of the tiny model into one state and holds it there, so that something can happen to it exactly then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from threading import Event
from typing import Any

from app.chat import Chat, Started
from app.engine.events import Progress, TextDelta
from app.engine.run import LiveRun
from app.models.loading import LoadedModel
from tests.engine.conftest import OneModel

LENGTH = 60
"""Tokens of a reply; at the gate it has only a few of them."""
QUESTION = "one two three four five six seven eight nine ten, " * 4
"""Several chunks of prompt, with repetitions for prompt lookup to quote."""

Asked = Mapping[str, Any]


def reply(**more: Any) -> dict[str, Any]:
    """Parameters of a reply of exactly ``LENGTH`` tokens."""
    return {"max_new_tokens": LENGTH, "min_new_tokens": LENGTH, "seed": 3, **more}


WAYS: Mapping[str, Asked] = {
    "plain": reply(temperature=0),
    "sampled": reply(do_sample=True, temperature=1.5),
    "two sequences": reply(do_sample=True, temperature=1.5, num_return_sequences=2),
    "beams": reply(num_beams=3),
    "prompt lookup": reply(temperature=0, prompt_lookup_num_tokens=3),
}
"""Every kind of loop that a reply can run through."""


def asked_for(loaded: LoadedModel, way: str) -> dict[str, Any]:
    """The parameters of a way. The random model may say letters only, so that every token is text at once."""
    texts = [str(loaded.tokenizer.decode([token])) for token in range(loaded.facts.vocab_size)]
    silent = [token for token, text in enumerate(texts) if not text.strip().isalpha() or not text.isascii()]
    return {**WAYS[way], "suppress_tokens": silent}


@dataclass
class Gate:
    """Stands in front of the model's forward pass. ``at`` sees the number of the call (from 1) and says whether it waits there for
    ``open``; ``calls`` counts all of them."""

    at: Callable[[int], bool]
    open: Event = field(default_factory=Event)
    reached: Event = field(default_factory=Event)
    calls: int = 0

    def __call__(self) -> None:
        self.calls += 1
        if not self.open.is_set() and self.at(self.calls):
            self.reached.set()
            assert self.open.wait(120)


@contextmanager
def before_forward(
    model: Any, act: Callable[[], None], after: Callable[[Any], Any] = lambda out: out
) -> Iterator[None]:
    """``act`` runs before every forward pass of the model; ``after`` may change what it returns."""
    forward = model.forward

    @wraps(forward)
    def acting(*args: Any, **kwargs: Any) -> Any:
        act()
        return after(forward(*args, **kwargs))

    model.forward = acting
    try:
        yield
    finally:
        del model.forward


def has_written(run: LiveRun) -> bool:
    """Whether a run has got beyond its first tokens, shown or (beams) counted."""
    return any(
        isinstance(e, TextDelta) or (isinstance(e, Progress) and e.what == "tokens" and e.done > 2)
        for _, e in run.read()
    )


@dataclass(frozen=True)
class Held:
    """A run that is held in its state until ``let_go``."""

    started: Started
    gate: Gate
    let_go: Callable[[], None]

    @property
    def run(self) -> LiveRun:
        return self.started.run


STATES = (
    "queued",
    "loading",
    "prefill",
    "generating",
    "two sequences",
    "beams",
    "beams prefill",
    "prompt lookup",
    "prompt lookup prefill",
)
"""Every state that a run can be in, the prefill and the writing of each loop apart."""


@contextmanager
def held(chat: Chat, loaded: LoadedModel, models: OneModel, state: str, **more: Any) -> Iterator[Held]:
    """A run in ``state``, held until it is let go or the block ends."""
    way, prefilling = state.removesuffix(" prefill"), state.endswith("prefill")
    asked = asked_for(loaded, way if way in WAYS else "sampled") | more

    def at(call: int) -> bool:
        if prefilling or state == "queued":
            return call == 2
        return has_written(chat.engine.queue()[0])

    gate = Gate(at)
    with before_forward(loaded.model, gate):
        if state == "loading":
            models.gate.clear()
        ahead = chat.send(QUESTION, requested=asked) if state == "queued" else None
        started = chat.send(QUESTION, requested=asked, model="another" if state == "loading" else None)

        def let_go() -> None:
            gate.open.set()
            models.gate.set()

        try:
            _await(state, gate, started.run)
            yield Held(started, gate, let_go)
        finally:
            let_go()
            for run in (ahead.run if ahead else started.run, started.run):
                run.result(120)


def _await(state: str, gate: Gate, run: LiveRun) -> None:
    if state != "loading":
        assert gate.reached.wait(60)
        return
    for _, event in run.events():
        if isinstance(event, Progress):
            return
