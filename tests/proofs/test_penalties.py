"""What pushes or forbids particular tokens does so to these tokens, by the amount it says, and to no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from app.conversation import FinishReason, RunStatus
from tests.proofs.conftest import GREEDY, OPEN, Lab, Reply

SEEN = {**GREEDY, "output_scores": True, "output_logits": True}


def pairs(reply: Reply) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Per token: raw logits and final scores."""
    return list(zip(reply.inside.logits, reply.inside.scores, strict=True))


def contains(ids: Sequence[int], phrase: Sequence[int]) -> bool:
    return any(list(ids[i : i + len(phrase)]) == list(phrase) for i in range(len(ids) - len(phrase) + 1))


def penalized(logits: torch.Tensor, tokens: set[int], penalty: float) -> torch.Tensor:
    changed = logits.clone()
    index = torch.tensor(sorted(tokens))
    chosen = logits[index]
    changed[index] = torch.where(chosen > 0, chosen / penalty, chosen * penalty)
    return changed


@pytest.mark.parametrize("penalty", [0.7, 1.3])
def test_repetition_penalty(lab: Lab, penalty: float) -> None:
    reply = lab.reply(**SEEN, repetition_penalty=penalty)
    for step, (logits, scores) in enumerate(pairs(reply)):
        seen = {*reply.prompt, *reply.ids[:step]}
        torch.testing.assert_close(scores, penalized(logits, seen, penalty))


@pytest.mark.parametrize("penalty", [0.7, 1.4])
def test_encoder_repetition_penalty(lab: Lab, penalty: float) -> None:
    """Above 1 favours what stands in the prompt, whatever the reply has repeated."""
    reply = lab.reply(**SEEN, encoder_repetition_penalty=penalty)
    for logits, scores in pairs(reply):
        torch.testing.assert_close(scores, penalized(logits, set(reply.prompt), 1 / penalty))


def test_length_penalty(lab: Lab) -> None:
    """Which beam wins changes: a high exponent takes a longer one than a low one."""
    asked: dict[str, Any] = {**GREEDY, "num_beams": 4, "eos_token_id": list(range(200, 400)), "max_new_tokens": 24}
    lengths = {p: len(lab.reply(**asked, length_penalty=p).ids) for p in (-5.0, 5.0)}
    assert lengths[-5.0] < lengths[5.0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeat_ngram_size(lab: Lab, size: int) -> None:
    def repeated(reply: Reply) -> bool:
        everything = [*reply.prompt, *reply.ids]
        grams = [tuple(everything[i : i + size]) for i in range(len(everything) - size + 1)]
        return any(gram in grams[:i] for i, gram in enumerate(grams) if i + size > len(reply.prompt))

    asked: dict[str, Any] = {**GREEDY, "max_new_tokens": 40, "min_new_tokens": 40}
    assert repeated(lab.reply(**asked))
    assert not repeated(lab.reply(**asked, no_repeat_ngram_size=size))


@pytest.mark.parametrize("length", [1, 2])
def test_bad_words_ids(lab: Lab, length: int) -> None:
    """A phrase that would be written no longer is, as ids and as text, with and without a space before it."""
    free = lab.reply(**GREEDY)
    phrase = free.ids[2 : 2 + length]
    assert not contains(lab.reply(**GREEDY, bad_words_ids=[phrase]).ids, phrase)


def test_bad_words_ids__a_text_in_all_its_forms(lab: Lab) -> None:
    pushed: dict[str, Any] = {**GREEDY, "sequence_bias": [["answer", 60.0], [" answer", 60.0]]}
    assert "answer" in lab.reply(**pushed).text
    assert "answer" not in lab.reply(**pushed, bad_words_ids=["answer"]).text


def test_renormalize_logits(lab: Lab) -> None:
    asked: dict[str, Any] = {**OPEN, "output_scores": True, "top_k": 10}
    plain, normal = lab.reply(**asked), lab.reply(**asked, renormalize_logits=True)
    assert all(abs(float(scores.exp().sum()) - 1) < 1e-4 for scores in normal.inside.scores)
    assert all(abs(float(scores.exp().sum()) - 1) > 1e-2 for scores in plain.inside.scores)
    assert normal.ids == plain.ids


@pytest.mark.parametrize("beams", [1, 3])
def test_forced_bos_token_id(lab: Lab, beams: int) -> None:
    token = lab.encode("a")[0]
    assert lab.reply(**GREEDY, num_beams=beams).ids[0] != token
    reply = lab.reply(**GREEDY, num_beams=beams, forced_bos_token_id="a", output_scores=True)
    assert reply.ids[0] == token
    assert [int(torch.isfinite(scores).sum()) for scores in reply.inside.scores[:2]] == [1, lab.loaded.facts.vocab_size]


def test_forced_bos_token_id__not_where_a_reply_goes_on(lab: Lab) -> None:
    asked: dict[str, Any] = {**GREEDY, "forced_bos_token_id": "a", "max_new_tokens": 4}
    first = lab.reply(**asked)
    again = lab.reply(**asked, continued=first)
    free = lab.reply(**GREEDY, max_new_tokens=4, continued=first)
    assert again.ids == free.ids
    assert again.ids[:4] == first.ids


@pytest.mark.parametrize("beams", [1, 3])
def test_forced_eos_token_id(lab: Lab, beams: int) -> None:
    reply = lab.reply(**GREEDY, num_beams=beams, forced_eos_token_id=["<|im_end|>"], min_length=24, max_new_tokens=10)
    assert reply.ids[-1] == lab.encode("<|im_end|>")[0]
    assert lab.reply(**GREEDY, num_beams=beams, max_new_tokens=10).ids[-1] != reply.ids[-1]


def test_forced_eos_token_id__at_the_length_limit_only(lab: Lab) -> None:
    free = lab.reply(**GREEDY, max_new_tokens=20)
    reply = lab.reply(**GREEDY, max_new_tokens=10, forced_eos_token_id=["."])
    assert reply.ids[:9] == free.ids[:9]
    assert reply.ids[9:] == lab.encode(".")
    assert reply.reason is FinishReason.LENGTH


def test_remove_invalid_values(lab: Lab) -> None:
    def poison(_module: Any, _args: Any, output: Any) -> None:
        output.logits[..., 5:9] = float("nan")
        output.logits[..., 9] = float("inf")

    hook = lab.loaded.model.register_forward_hook(poison)
    try:
        failed = lab.ask(**GREEDY)
        healed = lab.ask(**GREEDY, remove_invalid_values=True)
    finally:
        hook.remove()
    assert failed.status is RunStatus.FAILED
    assert "remove_invalid_values" in failed.error
    assert healed.status is RunStatus.DONE


def test_exponential_decay_length_penalty(lab: Lab) -> None:
    """From the start on, the end token's score grows by |logit| · (factor^steps - 1); before it, nothing changes."""
    start, factor = 4, 1.5
    reply = lab.reply(**SEEN, exponential_decay_length_penalty=[start, factor], max_new_tokens=60)
    for step, (logits, scores) in enumerate(pairs(reply)):
        grown = max(0, step - start)
        expected = logits.clone()
        expected[lab.eos] += abs(float(logits[lab.eos])) * (factor**grown - 1)
        torch.testing.assert_close(scores, expected)
    assert reply.reason is FinishReason.EOS
    assert lab.reply(**GREEDY, max_new_tokens=60).reason is FinishReason.LENGTH


def test_suppress_tokens(lab: Lab) -> None:
    free = lab.reply(**GREEDY, max_new_tokens=30)
    unwanted = sorted(set(free.ids))[:3]
    assert not set(lab.reply(**GREEDY, max_new_tokens=30, suppress_tokens=unwanted).ids) & set(unwanted)


def test_begin_suppress_tokens(lab: Lab) -> None:
    free = lab.reply(**GREEDY, max_new_tokens=30)
    reply = lab.reply(**GREEDY, output_scores=True, max_new_tokens=30, begin_suppress_tokens=[free.ids[0]])
    assert reply.ids[0] != free.ids[0]
    barred = [bool(torch.isneginf(scores[free.ids[0]])) for scores in reply.inside.scores]
    assert barred == [True] + [False] * 29


def test_sequence_bias(lab: Lab) -> None:
    phrase = " hello world"
    assert phrase not in lab.reply(**GREEDY, max_new_tokens=30).text
    assert len(lab.encode(phrase)) > 1
    biased = lab.reply(**GREEDY, max_new_tokens=30, sequence_bias=[[phrase, 95.0], [lab.encode(phrase)[:1], 50.0]])
    assert phrase in biased.text


def test_sequence_bias__adds_exactly_that_much(lab: Lab) -> None:
    token = lab.encode("a")[0]
    for logits, scores in pairs(lab.reply(**SEEN, sequence_bias=[[[token], -3.5]])):
        difference = scores - logits
        assert float(difference[token]) == pytest.approx(-3.5, abs=1e-4)
        assert int((difference != 0).sum()) == 1
