"""What only a real model can show: words, sentences and facts on the built-in one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.conversation import FinishReason
from app.insight.watermark import detect
from app.models.loading import LoadedModel, load_model
from app.settings import Settings
from tests.engine.test_guess_plan import Fixed
from tests.proofs.conftest import GREEDY, OPEN, Lab, laboratory

CAPITAL = "What is the capital of France? Answer in one short sentence."


@pytest.fixture(scope="module")
def builtin(shared_cache: Path) -> LoadedModel:
    return load_model("builtin", Settings(cache=shared_cache))


@pytest.fixture(scope="module")
def real(builtin: LoadedModel) -> Iterator[Lab]:
    yield from laboratory(builtin=builtin)


def test_token_healing__http_goes_on_as_http_slashes(real: Lab) -> None:
    asked: dict[str, Any] = {**GREEDY, "prefix": "You can find it at http:", "max_new_tokens": 8}
    healed = real.reply("What is the address of the Python web site?", **asked, token_healing=True)
    assert healed.text.startswith("You can find it at http://")
    assert healed.prompt[-1] != real.encode(":")[0]


def test_bad_words_ids__a_word_that_would_be_said_is_not(real: Lab) -> None:
    free = real.reply(CAPITAL, **GREEDY, max_new_tokens=30)
    assert "Paris" in free.text
    assert "Paris" not in real.reply(CAPITAL, **GREEDY, max_new_tokens=30, bad_words_ids=["Paris"]).text


def test_sequence_bias__a_favoured_phrase_appears(real: Lab) -> None:
    text = real.reply("Name a fruit.", **GREEDY, max_new_tokens=20, sequence_bias=[["banana", 20.0]]).text
    assert "banana" in text


def test_stop_strings__end_a_sentence(real: Lab) -> None:
    free = real.reply(CAPITAL, **GREEDY, max_new_tokens=40)
    reply = real.reply(CAPITAL, **GREEDY, max_new_tokens=40, stop_strings=["France"])
    assert "France" in free.text
    assert reply.text == free.text.split("France", maxsplit=1)[0]
    assert reply.reason is FinishReason.STOP_STRING


def test_negative_prompt__pushes_away(real: Lab) -> None:
    asked: dict[str, Any] = {
        **GREEDY,
        "max_new_tokens": 24,
        "negative_prompt": "You always talk about Paris and France.",
    }
    plain = real.reply("Tell me about a city.", **asked)
    guided = real.reply("Tell me about a city.", **asked, guidance_scale=2.5)
    assert guided.text != plain.text
    assert "Paris" not in guided.text


def test_prompt_lookup_num_tokens__quotes_in_fewer_passes(real: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is the same and a text that repeats itself takes far fewer passes, in our own loop and in the library's."""
    step = real.engine.held.beside.decoding.step
    assert step is not None
    monkeypatch.setattr(step.replies, "costs", Fixed(0.3))
    asked: dict[str, Any] = {**GREEDY, "repetition_penalty": 1.0, "max_new_tokens": 40, "min_new_tokens": 40}
    question = (
        "Write the word lighthouse many times, separated by commas: lighthouse, lighthouse, lighthouse, lighthouse,"
    )
    plain, looked_up = (real.reply(question, **asked, prompt_lookup_num_tokens=count) for count in (0, 8))
    assert looked_up.ids == plain.ids
    assert looked_up.ended.run.stats.passes < 24

    seen: list[int] = []
    hook = real.loaded.model.register_forward_pre_hook(lambda *_: seen.append(1))
    try:
        by_library = real.reply(question, **asked, prompt_lookup_num_tokens=8)
    finally:
        hook.remove()
    assert by_library.text[:20] == plain.text[:20]
    assert len(seen) < 24


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "country": {"type": "string", "maxLength": 20}},
    "required": ["city", "country"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("beams", [1, 2])
def test_output_format__facts_in_a_form(real: Lab, beams: int) -> None:
    wanted = {"kind": "json_schema", "schema": SCHEMA}
    question = "Where is the Eiffel tower? Answer as JSON with city and country."
    reply = real.reply(question, **GREEDY, num_beams=beams, max_new_tokens=60, output_format=wanted)
    assert reply.reason is FinishReason.EOS
    assert json.loads(reply.text) == {"city": "Paris", "country": "France"}


def test_num_beams__a_likelier_reply(real: Lab) -> None:
    plain = {"repetition_penalty": 1.0}  # a penalty would make beams look for another text than the likeliest
    held: dict[str, Any] = {**GREEDY, **plain, "max_new_tokens": 16, "min_new_tokens": 16, "length_penalty": 0.0}
    greedy, searched = (real.reply("Write a line about rain.", **held, num_beams=beams) for beams in (1, 4))
    totals = [real.log_probability(reply.prompt, reply.ids) for reply in (greedy, searched)]
    assert totals[1] > totals[0]


@pytest.mark.full
def test_watermarking_config__found_in_real_sentences(real: Lab) -> None:
    asked: dict[str, Any] = {**OPEN, "max_new_tokens": 120, "min_new_tokens": 120}
    config = {"kind": "greenlist", "bias": 5.0}
    plain = real.reply("Tell me a story.", **asked)
    marked = real.reply("Tell me a story.", **asked, watermarking_config=config)
    used = marked.effective["watermarking_config"]
    vocabulary = real.loaded.facts.vocab_size
    assert detect(marked.ids, used, vocabulary, context=marked.prompt).marked
    assert not detect(plain.ids, used, vocabulary, context=plain.prompt).marked
