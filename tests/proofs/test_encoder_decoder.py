"""Encoder–decoder models chat too, and their own parameters act; elsewhere they say why they don't."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from app.conversation import FinishReason, RunStatus
from tests.proofs.conftest import GREEDY, OPEN, Lab

SOURCE = "one two three four five six seven eight"


def grams(ids: list[int], size: int) -> set[tuple[int, ...]]:
    return {tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)}


def test_encoder_decoder__replies(t5_lab: Lab) -> None:
    reply = t5_lab.reply(SOURCE, **GREEDY)
    assert len(reply.ids) == 12
    assert reply.reason is FinishReason.LENGTH
    assert reply.text == t5_lab.loaded.tokenizer.decode(reply.ids, skip_special_tokens=True)
    assert reply.prompt[-1] == t5_lab.eos, "the encoder reads the message and its end token"


@pytest.mark.parametrize("more", [{}, {"num_beams": 3}, OPEN, {"use_cache": False}], ids=str)
def test_encoder_decoder__in_every_way(t5_lab: Lab, more: dict[str, Any]) -> None:
    assert t5_lab.reply(SOURCE, **more).ids


@pytest.mark.parametrize("size", [1, 2])
def test_encoder_no_repeat_ngram_size(t5_lab: Lab, size: int) -> None:
    words = {*t5_lab.encode(SOURCE)[:4], *range(33, 40)}
    pushed: dict[str, Any] = {**GREEDY, "no_repeat_ngram_size": 2}  # so that nearly all pairs of these words come up
    pushed["suppress_tokens"] = [i for i in range(400) if i not in words]
    free = t5_lab.reply(SOURCE, **pushed, max_new_tokens=100)
    barred = t5_lab.reply(SOURCE, **pushed, max_new_tokens=25, encoder_no_repeat_ngram_size=size)
    assert grams(free.ids, size) & grams(free.prompt, size)
    assert not grams(barred.ids, size) & grams(barred.prompt, size)


def test_encoder_no_repeat_ngram_size__elsewhere_it_says_why_not(lab: Lab) -> None:
    reply = lab.reply(encoder_no_repeat_ngram_size=2)
    assert any("this model has no encoder" in note for note in reply.ended.run.notes)


def test_encoder_repetition_penalty__of_the_encoders_input(t5_lab: Lab) -> None:
    reply = t5_lab.reply(SOURCE, **GREEDY, encoder_repetition_penalty=1.5, output_scores=True, output_logits=True)
    inside = sorted(set(reply.prompt))
    outside = [i for i in range(400) if i not in inside]
    for logits, scores in zip(reply.inside.logits, reply.inside.scores, strict=True):
        torch.testing.assert_close(scores[outside], logits[outside])
        assert bool((scores[inside] >= logits[inside]).all())
        assert bool((scores[inside] > logits[inside]).any())


@pytest.mark.parametrize("token", [0, 33, "a"])
def test_decoder_start_token_id(t5_lab: Lab, token: int | str) -> None:
    """The decoder starts with it: its first logits are those behind this token."""
    number = token if isinstance(token, int) else t5_lab.encode(token)[0]
    reply = t5_lab.reply(SOURCE, **GREEDY, decoder_start_token_id=token, output_logits=True)
    model: Any = t5_lab.loaded.model
    with torch.inference_mode():
        given = model(input_ids=torch.tensor([reply.prompt]), decoder_input_ids=torch.tensor([[number]]))
    torch.testing.assert_close(reply.inside.logits[0], given.logits[0, -1].float(), atol=0.1, rtol=0.05)
    assert reply.effective["decoder_start_token_id"] == number


def test_decoder_start_token_id__elsewhere_it_says_why_not(lab: Lab) -> None:
    assert any("this model has no encoder" in n for n in lab.reply(decoder_start_token_id=5).ended.run.notes)


@pytest.mark.parametrize("beams", [1, 3])
def test_forced_bos_token_id__starts_the_decoders_text(t5_lab: Lab, beams: int) -> None:
    token = t5_lab.encode("b")[0]
    assert t5_lab.reply(SOURCE, **GREEDY, num_beams=beams).ids[0] != token
    assert t5_lab.reply(SOURCE, **GREEDY, num_beams=beams, forced_bos_token_id="b").ids[0] == token


def test_encoder_decoder__a_typed_beginning_and_going_on(t5_lab: Lab) -> None:
    typed = t5_lab.reply(SOURCE, **GREEDY, prefix="one two", max_new_tokens=5)
    assert typed.text.startswith("one two")
    assert typed.ids[: len(t5_lab.encode("one two"))] == t5_lab.encode("one two")
    whole = t5_lab.reply(SOURCE, **GREEDY, max_new_tokens=12)
    part = t5_lab.reply(SOURCE, **GREEDY, max_new_tokens=5)
    rest = t5_lab.reply(SOURCE, **GREEDY, max_new_tokens=7, continued=part)
    assert rest.ids[:5] == part.ids
    assert rest.ids == whole.ids


def test_encoder_decoder__attention_over_the_input(t5_lab: Lab) -> None:
    reply = t5_lab.ask(SOURCE, **GREEDY, output_attentions=True, output_hidden_states=True)
    assert reply.status is RunStatus.DONE, reply.error
    assert len(reply.inside.hidden_states) == len(reply.ids)
    if reply.explained["output_attentions"]["active"]:
        assert reply.inside.cross_attentions[0].shape[-1] == len(reply.prompt)
