"""What bounds a reply bounds it: totals, minima, time, texts, and the end of a beam search."""

from __future__ import annotations

from typing import Any, TypeGuard

import pytest

from app.conversation import FinishReason, RunStatus
from app.engine.events import Event, Progress, TextDelta
from tests.proofs.conftest import GREEDY, OPEN, UNSET, Lab, Reply

ENDS_EVERYWHERE: dict[str, Any] = {"eos_token_id": list(range(100, 400))}
"""Three quarters of the vocabulary end the reply: without a minimum it is over at once."""


def test_max_length(lab: Lab) -> None:
    reply = lab.reply(max_length=40, max_new_tokens=UNSET, min_length=40)
    assert len(reply.prompt) + len(reply.ids) == 40
    assert reply.reason is FinishReason.LENGTH


def test_max_length__the_prompt_alone_is_longer(lab: Lab) -> None:
    reply = lab.ask("a long question " * 20, max_length=30, max_new_tokens=UNSET)
    assert reply.status is RunStatus.FAILED
    assert reply.error.startswith("max_length: ")
    assert "prompt alone" in reply.error


@pytest.mark.parametrize("count", [1, 7, 33])
def test_max_new_tokens(lab: Lab, count: int) -> None:
    reply = lab.reply(max_new_tokens=count, min_new_tokens=count)
    assert len(reply.ids) == reply.effective["max_new_tokens"] == count
    assert reply.reason is FinishReason.LENGTH


def test_max_new_tokens__fitted_to_the_context(lab: Lab) -> None:
    reply = lab.reply(max_new_tokens=5000, min_new_tokens=400)
    context = lab.loaded.facts.context_length
    assert reply.effective["max_new_tokens"] == context - len(reply.prompt)
    assert len(reply.prompt) + len(reply.ids) <= context


def test_min_length(lab: Lab) -> None:
    free = lab.reply(**OPEN, **ENDS_EVERYWHERE, max_new_tokens=30)
    held = lab.reply(**OPEN, **ENDS_EVERYWHERE, max_new_tokens=30, min_length=len(free.prompt) + 15)
    assert len(free.ids) < 15
    assert len(held.ids) >= 15
    assert not set(held.ids[:14]) & set(ENDS_EVERYWHERE["eos_token_id"])


def test_min_new_tokens(lab: Lab) -> None:
    free = lab.reply(**OPEN, **ENDS_EVERYWHERE, max_new_tokens=30)
    held = lab.reply(**OPEN, **ENDS_EVERYWHERE, max_new_tokens=30, min_new_tokens=20)
    assert len(free.ids) < 20
    assert len(held.ids) >= 20
    assert not set(held.ids[:19]) & set(ENDS_EVERYWHERE["eos_token_id"])


def is_step(event: Event) -> TypeGuard[Progress]:
    return isinstance(event, Progress) and event.what == "tokens"


def test_early_stopping(lab: Lab) -> None:
    """True ends at num_beams finished candidates; "never" goes on as long as a better one is possible."""
    asked: dict[str, Any] = {
        "num_beams": 3,
        "eos_token_id": list(range(250, 400)),
        "length_penalty": 3.0,
        "max_new_tokens": 40,
    }
    steps = {}
    for choice in (True, False, "never"):
        reply = lab.reply(**GREEDY, **asked, early_stopping=choice)
        assert reply.effective["early_stopping"] == choice
        steps[choice] = max(event.done for _, event in reply.live.read() if is_step(event))
    assert steps[True] < steps["never"]
    assert steps[True] <= steps[False] <= steps["never"]


def test_max_time(lab: Lab) -> None:
    reply = lab.reply(max_new_tokens=450, min_new_tokens=450, max_time=0.05)
    assert reply.reason is FinishReason.TIME
    assert 0 < len(reply.ids) < 450


def shown(reply: Reply) -> str:
    return "".join(event.text for _, event in reply.live.read() if isinstance(event, TextDelta))


def forced(lab: Lab, text: str) -> dict[str, Any]:
    """Settings under which the tiny model writes exactly this text and goes on: one token after the other is pushed."""
    ids = lab.encode(text)
    return {**GREEDY, "output_format": {"kind": "regex", "pattern": f"{text}.*"}, "max_new_tokens": len(ids) + 20}


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("one two STOP three", "STOP"),
        ("one two STOP three", " STO"),
        ("这是一个测试，停止在这里。", "停止"),
        ("naïve 🙂 end", "🙂"),
        ("aaab", "aab"),
    ],
)
@pytest.mark.parametrize("beams", [1, 3])
def test_stop_strings(lab: Lab, text: str, stop: str, beams: int) -> None:
    reply = lab.reply(**forced(lab, text), stop_strings=[stop, "never seen"], num_beams=beams)
    assert reply.reason is FinishReason.STOP_STRING
    assert reply.text == text.split(stop, maxsplit=1)[0]
    assert shown(reply) == reply.text


def test_stop_strings__without_one_the_text_goes_on(lab: Lab) -> None:
    text = "one two STOP three"
    assert lab.reply(**forced(lab, text)).text.startswith(text)


def test_stop_strings__with_prompt_lookup(lab: Lab) -> None:
    """Several tokens are accepted at once; what comes behind the stop text belongs neither to the text nor to the ids."""
    long = lab.reply("again and again", **GREEDY, max_new_tokens=60)
    stop = lab.loaded.tokenizer.decode(long.ids[20:22])
    single = lab.reply("again and again", **GREEDY, max_new_tokens=60, stop_strings=[stop])
    several = lab.reply(
        "again and again", **GREEDY, max_new_tokens=60, stop_strings=[stop], prompt_lookup_num_tokens=10
    )
    assert several.reason is single.reason is FinishReason.STOP_STRING
    assert (several.text, several.ids) == (single.text, single.ids)
