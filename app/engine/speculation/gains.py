"""What guessing gains in the library's own loop, which can't change its mind within a reply: who lost rests for the next replies.

Text and draws of that loop depend on whether it guesses, so this is decided before a reply and stands in its effective values: a replay
takes the same way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from app.engine.speculation.costs import GAIN, REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.conversation import Json
    from app.engine.assisted import Draft

LOOKUP = "prompt lookup"
LEAST_S = 1.0
"""Nobody minds losing less in a reply, and whoever watches what a setting does to the guesses sees it."""
FIRST, LONGEST = 4, 64
"""Replies that whoever guesses rests for after a loss; twice as many after each further loss."""
STEPS = 3
"""Single steps that are measured where none has been seen."""


@dataclass(eq=False)
class _Rest:
    gain: float
    replies: int
    left: int


@dataclass(eq=False)
class LibraryGains:
    """Belongs to one loaded model; kept from reply to reply."""

    _steps: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _rests: dict[str, _Rest] = field(default_factory=dict)

    def took(self, seconds: float) -> None:
        """A step without guesses is over."""
        self._steps.append(seconds)

    def pace(self, model: Any) -> float:
        """Seconds of a step without guesses, measured now if there was none."""
        if not self._steps:
            self._steps.append(min(_single_steps(model)))
        return median(self._steps)

    def saw(self, who: str, gain: float, seconds: float) -> None:
        """A reply was ``gain`` times as quick with these guesses, and took so long."""
        if gain * GAIN >= 1:
            self._rests.pop(who, None)
            return
        if seconds * (1 - gain) < LEAST_S:
            return
        before = self._rests.get(who)
        replies = min(LONGEST, 2 * before.replies) if before else FIRST
        self._rests[who] = _Rest(gain, replies, replies)

    def resting(self, who: str) -> str | None:
        """Why this way to guess doesn't take part in the next reply; None when it does. To be asked once per reply."""
        rest = self._rests.get(who)
        if rest is None or rest.left == 0:
            return None
        rest.left -= 1
        again = f"again in {rest.left + 1} replies" if rest.left else "again with the next reply"
        return f"{who} made a reply {rest.gain:.2f} times as quick as it is without, so it rests and is tried {again}"


@dataclass(eq=False)
class LibraryGuesses:
    """One reply's guesses in the library's loop. ``who`` makes them; ``passes``: steps of the model; ``pace``: seconds of one that only
    writes a single token."""

    who: str
    pace: float
    passes: int = 0

    @property
    def drafted_by(self) -> str | None:
        """Who guessed."""
        return self.who

    def gain(self, speed: float | None) -> float | None:
        """How many times as quick a reply with so many tokens per second was."""
        return speed * self.pace if speed else None


def who_guesses(values: Mapping[str, Json], draft: Draft | None) -> str | None:
    """Who would guess with these effective values, of those that may rest; ``draft``: the one that takes part."""
    if draft:
        return draft.name
    return LOOKUP if values["prompt_lookup_num_tokens"] else None


def _single_steps(model: Any) -> list[float]:
    """Seconds of the model's forward for one token."""
    import torch

    token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    more = {"decoder_input_ids": token} if model.config.is_encoder_decoder else {}
    seconds = []
    with torch.inference_mode():
        for _ in range(STEPS):
            begun = perf_counter()
            model(
                input_ids=token, use_cache=False, **more
            ).logits.sum().item()  # a card works on until somebody wants a number
            seconds.append(perf_counter() - begun)
    return seconds
