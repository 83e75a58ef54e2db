"""Parameters that work on texts: token healing, guidance with a negative prompt, watermarks and their detectors."""

from __future__ import annotations

from typing import Any

import pytest

from app.insight.watermark import Detection, detect
from tests.proofs.conftest import GREEDY, OPEN, Lab, Reply


def starting_alike(lab: Lab, token: int) -> list[int]:
    start = str(lab.loaded.tokenizer.convert_ids_to_tokens(token))
    return [i for text, i in lab.loaded.tokenizer.get_vocab().items() if text.startswith(start)]


def test_token_healing(lab: Lab) -> None:
    """The last token typed is taken back and chosen again among those that start the same; what was typed stays."""
    changed = 0
    for typed in (" a", " t", " w", "wor", "qu", " qu", "S"):
        plain, healed = (lab.reply(**GREEDY, prefix=typed, token_healing=on, max_new_tokens=2) for on in (False, True))
        tail = lab.encode(typed)[-1]
        logits = lab.logits(plain.prompt[:-1])[-1].clone()
        logits[tail] += 1
        best = max(starting_alike(lab, tail), key=lambda i: float(logits[i]))
        assert healed.prompt == [*plain.prompt[:-1], best]
        assert healed.text.startswith(typed)
        changed += best != tail
    assert changed


def test_token_healing__the_chat_template_stays(lab: Lab) -> None:
    plain, healed = (lab.reply(**GREEDY, prefix=" the w", token_healing=on) for on in (False, True))
    assert healed.prompt[:-1] == plain.prompt[:-1]
    assert lab.encode("<|im_start|>")[0] in healed.prompt


def test_token_healing__without_a_typed_beginning_there_is_nothing_to_heal(lab: Lab) -> None:
    assert lab.reply(**GREEDY, token_healing=True).ids == lab.reply(**GREEDY).ids


NEGATIVE = "one two three four five"


def under_the_negative(lab: Lab, reply: Reply, negative: str) -> float:
    """Mean log-probability of a reply where the negative prompt stands in the system prompt's place."""
    turns = [{"role": "system", "content": negative}, {"role": "user", "content": "hello there"}]
    prompt: Any = lab.loaded.tokenizer.apply_chat_template(turns, add_generation_prompt=True)
    return lab.log_probability(list(prompt["input_ids"]), reply.ids) / len(reply.ids)


def advantage(lab: Lab, reply: Reply, negative: str) -> float:
    """How much likelier the reply is without the negative prompt than with it, in log-probability per token."""
    own = lab.log_probability(reply.prompt, reply.ids) / len(reply.ids)
    return own - under_the_negative(lab, reply, negative)


@pytest.mark.parametrize("more", [{}, {"use_cache": False}])
def test_guidance_scale(lab: Lab, more: dict[str, Any]) -> None:
    """The further up, the further away from what the negative prompt would have said."""
    asked: dict[str, Any] = {**GREEDY, "negative_prompt": NEGATIVE, "max_new_tokens": 16, "min_new_tokens": 16, **more}
    plain, guided = (lab.reply(**asked, guidance_scale=scale) for scale in (1.0, 4.0))
    assert guided.ids != plain.ids
    assert advantage(lab, guided, NEGATIVE) > advantage(lab, plain, NEGATIVE)


def test_guidance_scale__the_scores_are_the_weighted_difference(lab: Lab) -> None:
    reply = lab.reply(
        **GREEDY, negative_prompt=NEGATIVE, guidance_scale=2.0, max_new_tokens=1, output_scores=True, output_logits=True
    )
    turns = [{"role": "system", "content": NEGATIVE}, {"role": "user", "content": "hello there"}]
    prompt: Any = lab.loaded.tokenizer.apply_chat_template(turns, add_generation_prompt=True)
    unwanted = lab.logits(list(prompt["input_ids"]))[-1].log_softmax(-1)
    wanted = reply.inside.logits[0].log_softmax(-1)
    expected = 2.0 * (wanted - unwanted) + unwanted
    assert float((reply.inside.scores[0] - expected).abs().max()) < 0.5  # other stretches of prefill, bf16


def test_guidance_scale__several_replies_at_once(lab: Lab) -> None:
    asked: dict[str, Any] = {**OPEN, "negative_prompt": NEGATIVE, "guidance_scale": 1.5, "num_return_sequences": 3}
    assert len(lab.reply(**asked).ended.siblings) == 2


def test_negative_prompt(lab: Lab) -> None:
    """Another negative prompt, another reply; without guidance it does nothing and says so."""
    texts = {
        n: lab.reply(**GREEDY, guidance_scale=3.0, negative_prompt=n).text for n in ("", NEGATIVE, "Paris is France")
    }
    assert len(set(texts.values())) == 3
    unguided = lab.reply(**GREEDY, negative_prompt=NEGATIVE)
    assert unguided.ids == lab.reply(**GREEDY).ids
    assert any(note.startswith("negative_prompt: Ignored: guidance is off") for note in unguided.ended.run.notes)


GREEN = {"kind": "greenlist", "bias": 4.0, "greenlist_ratio": 0.25}
SELFHASH = {"kind": "greenlist", "bias": 4.0, "seeding_scheme": "selfhash", "context_width": 3, "hashing_key": 4242}
SYNTHID = {"kind": "synthid", "ngram_len": 5}


def examined(lab: Lab, reply: Reply, config: dict[str, Any]) -> Detection:
    return detect(reply.ids, config, lab.loaded.facts.vocab_size, context=reply.prompt)


@pytest.mark.parametrize("config", [GREEN, SELFHASH, SYNTHID], ids=["greenlist", "selfhash", "synthid"])
def test_watermarking_config(lab: Lab, config: dict[str, Any]) -> None:
    """The detector finds the mark, not in a plain reply, and not with other keys."""
    asked: dict[str, Any] = {**OPEN, "temperature": 4.0, "max_new_tokens": 160, "min_new_tokens": 160}
    plain = lab.reply(**asked)
    marked = lab.reply(**asked, watermarking_config=config)
    used = marked.effective["watermarking_config"]
    other = used | ({"keys": list(range(1, 21))} if used["kind"] == "synthid" else {"hashing_key": 99991})
    assert examined(lab, marked, used).marked
    assert not examined(lab, plain, used).marked
    assert not examined(lab, marked, other).marked
    assert examined(lab, marked, used).p_value < 1e-4 < examined(lab, plain, used).p_value


def test_watermarking_config__a_text_that_repeats_itself_is_not_taken_for_marked(lab: Lab) -> None:
    ids = lab.encode("again and again " * 40)
    config = lab.reply(watermarking_config=GREEN).effective["watermarking_config"]
    assert not detect(ids, config, lab.loaded.facts.vocab_size).marked


@pytest.mark.parametrize("config", [GREEN, SYNTHID])
def test_watermarking_config__too_short_to_tell(lab: Lab, config: dict[str, Any]) -> None:
    complete = lab.reply(watermarking_config=config, max_new_tokens=1).effective["watermarking_config"]
    found = detect([5], complete, lab.loaded.facts.vocab_size)
    assert (found.tokens, found.z_score, found.marked) == (0, 0.0, False)


def test_watermarking_config__the_tournament_cannot_follow_beams_and_says_so(lab: Lab) -> None:
    reply = lab.reply(watermarking_config=SYNTHID, num_beams=2)
    assert reply.effective["watermarking_config"] is None
    assert any(note.startswith("watermarking_config: Ignored") for note in reply.ended.run.notes)
