"""What a reply can bring along besides its text, and the special tokens it is framed by."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from app.conversation import FinishReason
from tests.proofs.conftest import GREEDY, OPEN, Lab

LOOPS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "prompt lookup": {"prompt_lookup_num_tokens": 4},
}
TOKENS = 9


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of each decode loop: ours and the library's."""
    return {**GREEDY, **LOOPS[request.param], "max_new_tokens": TOKENS, "min_new_tokens": TOKENS}


@pytest.mark.parametrize("count", [2, 5])
def test_num_return_sequences(lab: Lab, count: int) -> None:
    reply = lab.reply(**(OPEN | {"temperature": 2.0}), num_return_sequences=count)
    texts = [reply.text, *(sibling.text for sibling in reply.ended.siblings)]
    assert len(texts) == len(set(texts)) == count
    assert len({reply.ended.run.id, *(sibling.run.id for sibling in reply.ended.siblings)}) == count


def test_num_return_sequences__of_beams_are_the_best_ones_in_order(precise: Lab) -> None:
    asked: dict[str, Any] = {**GREEDY, "num_beams": 4, "max_new_tokens": 8, "min_new_tokens": 8, "length_penalty": 0.0}
    alone = precise.reply(**asked)
    reply = precise.reply(**asked, num_return_sequences=3)
    runs = [reply.ended.run, *(sibling.run for sibling in reply.ended.siblings)]
    totals = [precise.log_probability(reply.prompt, list(run.output_ids)) for run in runs]
    assert reply.ids == alone.ids
    assert totals == sorted(totals, reverse=True)
    assert len({run.output_ids for run in runs}) == 3


def test_num_return_sequences__clamped_and_said_where_there_is_only_one(lab: Lab) -> None:
    greedy = lab.reply(**GREEDY, num_return_sequences=3)
    beams = lab.reply(**GREEDY, num_beams=2, num_return_sequences=3)
    assert (len(greedy.ended.siblings), len(beams.ended.siblings)) == (0, 1)
    for reply in (greedy, beams):
        assert any(note.startswith("num_return_sequences: Clamped") for note in reply.ended.run.notes)


def test_output_attentions(eager: Lab, loop: dict[str, Any]) -> None:
    """One set of weights per token, layer and head, each a distribution over what stands before."""
    reply = eager.reply(**loop, output_attentions=True)
    assert len(reply.inside.attentions) == TOKENS
    for step, weights in enumerate(reply.inside.attentions):
        layers, heads, seen = weights.shape
        assert (layers, heads) == (2, 4)
        assert seen == len(reply.prompt) + step
        torch.testing.assert_close(weights.float().sum(-1), torch.ones(layers, heads), atol=0.02, rtol=0)


def test_output_attentions__needs_eager_attention_and_says_so(lab: Lab) -> None:
    reply = lab.reply(**GREEDY, output_attentions=True)
    assert not reply.inside.attentions
    assert any("load it with eager" in note for note in reply.ended.run.notes)


def test_output_hidden_states(lab: Lab, loop: dict[str, Any]) -> None:
    """Every layer's state per token; the last one, through the head, gives the logits again."""
    reply = lab.reply(**loop, output_hidden_states=True, output_logits=True)
    model: Any = lab.loaded.model
    assert len(reply.inside.hidden_states) == TOKENS
    for states, logits in zip(reply.inside.hidden_states, reply.inside.logits, strict=False):
        assert states.shape == (3, 64)
        with torch.inference_mode():
            again = model.lm_head(states[-1]).float()
        assert int(again.argmax()) == int(logits.argmax())


def test_output_scores(lab: Lab, loop: dict[str, Any]) -> None:
    """What the token was really chosen from: the settings have acted."""
    reply = lab.reply(**loop, output_scores=True, suppress_tokens=[60, 61])
    assert len(reply.inside.scores) == TOKENS
    assert not reply.inside.logits
    assert all(torch.isneginf(scores[[60, 61]]).all() for scores in reply.inside.scores)


def test_output_logits(lab: Lab, loop: dict[str, Any]) -> None:
    """What the model itself said: no setting has acted."""
    reply = lab.reply(**loop, output_logits=True, suppress_tokens=[60, 61])
    assert len(reply.inside.logits) == TOKENS
    assert not reply.inside.scores
    expected = lab.logits([*reply.prompt, *reply.ids])[len(reply.prompt) - 1 : -1]
    assert all(torch.isfinite(logits).all() for logits in reply.inside.logits)
    for logits, wanted in zip(reply.inside.logits, expected, strict=True):
        assert float((logits - wanted).abs().max()) < 0.5  # other stretches of prefill, bf16


def test_output_logits__only_as_much_as_fits_and_only_of_the_last_few_runs(lab: Lab) -> None:
    reply = lab.start(output_logits=True, max_new_tokens=9)
    reply.inside.limit = 1
    reply.result(60)
    assert not reply.inside.complete
    kept = [lab.reply(output_logits=True).inside for _ in range(5)]
    assert [bool(inside.logits) for inside in kept] == [False, False, True, True, True]


def test_return_dict_in_generate(lab: Lab) -> None:
    implied = lab.reply(output_scores=True)
    assert implied.effective["return_dict_in_generate"] is True
    assert implied.explained["return_dict_in_generate"]["reason"] == "Switched on, implied by output_scores."
    alone = lab.reply(**GREEDY, return_dict_in_generate=True)
    assert alone.effective["return_dict_in_generate"] is True
    assert alone.ids == lab.reply(**GREEDY).ids


@pytest.mark.parametrize("beams", [1, 3])
def test_eos_token_id(lab: Lab, beams: int) -> None:
    """Any token of the list ends the reply and is not shown; an empty list lets nothing end it."""
    free = lab.reply(**GREEDY, num_beams=beams, max_new_tokens=30)
    enders = [free.ids[5], 399]
    reply = lab.reply(**GREEDY, num_beams=beams, length_penalty=-5.0, max_new_tokens=30, eos_token_id=enders)
    assert reply.reason is FinishReason.EOS
    assert reply.ids[-1] in enders
    assert not set(reply.ids[:-1]) & set(enders)
    pushed: dict[str, Any] = {"sequence_bias": [[[lab.eos], 90.0]]}
    assert len(lab.reply(**GREEDY, **pushed, max_new_tokens=6).ids) == 1
    assert len(lab.reply(**GREEDY, **pushed, max_new_tokens=6, eos_token_id=[]).ids) == 6


def test_eos_token_id__as_text(lab: Lab) -> None:
    reply = lab.reply(**GREEDY, eos_token_id=["<|endoftext|>"], sequence_bias=[["<|endoftext|>", 90.0]])
    assert (reply.ids, reply.text, reply.reason) == ([0], "", FinishReason.EOS)
    assert reply.effective["eos_token_id"] == [0]


def test_pad_token_id(lab: Lab) -> None:
    """Fills up the shorter of several sequences: none of it belongs to a reply, whichever token it is."""
    asked: dict[str, Any] = {**(OPEN | {"temperature": 2.0}), "num_return_sequences": 6, "max_new_tokens": 24}
    asked["eos_token_id"] = list(range(340, 400))
    replies = [lab.reply(**asked, pad_token_id=pad) for pad in (0, 57)]
    ids = [[r.ids, *(list(s.run.output_ids) for s in r.ended.siblings)] for r in replies]
    assert ids[0] == ids[1]
    assert len({len(row) for row in ids[0]}) > 1
    assert [r.effective["pad_token_id"] for r in replies] == [0, 57]


def test_bos_token_id(lab: Lab) -> None:
    """Shown and kept with the reply. A chat prompt holds its beginning already, so nothing else may change."""
    reply = lab.reply(**GREEDY, bos_token_id="<|endoftext|>")
    assert reply.effective["bos_token_id"] == 0
    assert lab.reply(**GREEDY).effective["bos_token_id"] == 1
    assert (reply.prompt, reply.ids) == (lab.reply(**GREEDY).prompt, lab.reply(**GREEDY).ids)
