"""Fader's own parameters: the seed, the form of the reply, what is traced, and what is left out when the context is full."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
import torch

from app.conversation import FinishReason, RunStatus
from app.engine.trace import Trace
from app.errors import BadParameter
from app.models.loading import LoadedModel
from app.parameters.validate import validate
from tests.proofs.conftest import GREEDY, OPEN, Lab, Reply, laboratory

WILD: dict[str, Any] = OPEN | {"temperature": 4.0}
WAYS: dict[str, dict[str, Any]] = {
    "sampling": WILD,
    "several at once": {**WILD, "num_return_sequences": 3},
    "sampled beams": {**WILD, "num_beams": 3},
    "sampled lookup": {**WILD, "prompt_lookup_num_tokens": 4},
    "synthid": {**WILD, "watermarking_config": {"kind": "synthid"}},
}


@pytest.fixture
def second_lab(twin: LoadedModel) -> Iterator[Lab]:
    """Another engine, with the same weights, in the same process."""
    yield from laboratory(twin=twin)


@pytest.mark.parametrize("way", WAYS)
def test_seed(lab: Lab, second_lab: Lab, way: str) -> None:
    """The same seed gives the same text while another engine samples and other code draws from torch's shared state."""
    asked: dict[str, Any] = {**WAYS[way], "max_new_tokens": 24}
    alone = [lab.reply(**asked, seed=seed).ids for seed in (5, 6)]
    over = Event()

    def disturb() -> None:
        while not over.is_set():
            torch.manual_seed(9)
            torch.rand(10)

    noise = Thread(target=disturb)
    noise.start()
    try:
        others = [second_lab.start(**asked, seed=seed) for seed in (50, 5, 51)]
        beside = [lab.reply(**asked, seed=seed).ids for seed in (5, 6, 5)]
        elsewhere = [list(run.result(120).run.output_ids) for run in others]
    finally:
        over.set()
        noise.join()
    assert beside == [alone[0], alone[1], alone[0]]
    assert elsewhere[1] == alone[0]
    assert alone[0] != alone[1]


def test_seed__of_its_own_leaves_torchs_shared_state_alone(lab: Lab) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3).tolist()
    torch.manual_seed(3)
    for way in WAYS.values():
        lab.reply(**way)
    assert torch.rand(3).tolist() == expected


def test_seed__random_is_drawn_recorded_and_repeatable(lab: Lab) -> None:
    drawn = [lab.reply(**OPEN, seed=None) for _ in range(3)]
    seeds = [reply.ended.run.seed for reply in drawn]
    assert len(set(seeds)) == 3
    assert all(reply.effective["seed"] == reply.ended.run.seed for reply in drawn)
    assert [lab.reply(**OPEN, seed=seed).ids for seed in seeds] == [reply.ids for reply in drawn]


def test_seed__the_largest_one_with_several_replies(lab: Lab) -> None:
    reply = lab.reply(**OPEN, seed=2**32 - 1, num_return_sequences=3)
    for sibling in reply.ended.siblings:
        again = lab.reply(**OPEN, seed=sibling.run.seed)
        assert again.ids[0] == sibling.run.output_ids[0]


PERSON = {
    "type": "object",
    "properties": {
        "name": {"enum": ["Ann", "Bob"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "fit": {"type": "boolean"},
    },
    "required": ["name", "age", "fit"],
    "additionalProperties": False,
}
FORMS: dict[str, dict[str, Any]] = {
    "schema": {"kind": "json_schema", "schema": PERSON},
    "regex": {"kind": "regex", "pattern": "[A-C]{2}-[0-9]{3}(é|ü)"},
    "choices": {"kind": "choices", "choices": ["yes", "no, never", "也许", 'say "hi"']},
}


def obeys(text: str, form: dict[str, Any]) -> bool:
    if form["kind"] == "regex":
        return re.fullmatch(form["pattern"], text) is not None
    if form["kind"] == "choices":
        return text in form["choices"]
    value = json.loads(text)
    return set(value) == {"name", "age", "fit"} and value["name"] in ("Ann", "Bob") and 0 <= value["age"] <= 99


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "way",
    [
        GREEDY,
        OPEN,
        {**GREEDY, "num_beams": 3},
        {**OPEN, "num_beams": 4, "num_return_sequences": 3},
        {**OPEN, "num_return_sequences": 4},
    ],
    ids=["greedy", "sampling", "beams", "sampled beams", "several"],
)
def test_output_format(lab: Lab, form: str, way: dict[str, Any]) -> None:
    reply = lab.reply(**way, output_format=FORMS[form], max_new_tokens=60)
    for text, run in [(reply.text, reply.ended.run), *((s.text, s.run) for s in reply.ended.siblings)]:
        assert run.finish_reason is FinishReason.EOS
        assert obeys(text, FORMS[form]), text


def test_output_format__of_an_encoder_decoder_model(t5_lab: Lab) -> None:
    assert obeys(t5_lab.reply(**OPEN, output_format=FORMS["schema"], max_new_tokens=60).text, FORMS["schema"])


def test_output_format__a_typed_beginning_belongs_to_the_form(lab: Lab) -> None:
    reply = lab.reply(**OPEN, prefix='{"name": "Bo', output_format=FORMS["schema"], max_new_tokens=60)
    assert json.loads(reply.text)["name"] == "Bob"
    refused = lab.ask(**OPEN, prefix="Dear Sir", output_format=FORMS["schema"])
    assert refused.error.startswith("output_format: the reply already begins with")


def test_output_format__goes_on_where_a_reply_was_cut(lab: Lab) -> None:
    part = lab.reply(**OPEN, output_format=FORMS["schema"], max_new_tokens=6)
    whole = lab.reply(**OPEN, output_format=FORMS["schema"], max_new_tokens=60, continued=part)
    assert whole.ids[:6] == part.ids
    assert obeys(whole.text, FORMS["schema"])


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"kind": "regex", "pattern": "(["}, "unclosed character class"),
        ({"kind": "regex", "pattern": "(?=a)b"}, "look-around"),
        ({"kind": "json_schema", "schema": {"type": "nonsense"}}, "Invalid type: nonsense"),
        ({"kind": "json_schema", "schema": {"$ref": "#/nowhere"}}, "does not exist"),
        ({"kind": "json_schema", "schema": False}, "no text satisfies"),
        ({"kind": "choices", "choices": []}, "at least one"),
        ({"kind": "novel"}, "is not one of"),
    ],
)
def test_output_format__an_invalid_one_is_refused_before_anything_runs(form: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadParameter, match=reason) as refused:
        validate({"output_format": form})
    assert refused.value.name == "output_format"


def test_output_format__without_an_end_token_nothing_could_end_it(lab: Lab) -> None:
    reply = lab.ask(output_format=FORMS["choices"], eos_token_id=[])
    assert reply.error.startswith("output_format: there is no end token")


def trace_of(reply: Reply) -> Trace:
    assert reply.ended.trace
    return Trace.unpack(reply.ended.trace)


@pytest.mark.parametrize("k", [1, 7])
def test_trace_top_k(lab: Lab, k: int) -> None:
    """So many likeliest candidates are kept with every token."""
    reply = lab.reply(**OPEN, trace_top_k=k, output_logits=True)
    trace = trace_of(reply)
    assert trace.ids.shape == (len(reply.ids), k)
    assert trace.chosen.tolist() == reply.ids
    for step, logits in enumerate(reply.inside.logits):
        torch.testing.assert_close(torch.tensor(trace.raw[step]), logits.topk(k).values)


def test_trace_top_k__zero_keeps_none(lab: Lab) -> None:
    assert lab.reply(**OPEN, trace_top_k=0).ended.trace is None


@pytest.mark.parametrize("policy", ["stop", "drop_oldest", "keep_first", "drop_middle"])
def test_context_policy(lab: Lab, policy: str) -> None:
    """What doesn't fit is left out as the policy says, the reply says so, and "stop" refuses."""
    from app.conversation import Message, Role, new_id
    from app.engine.run import RunRequest

    roles = (Role.USER, Role.ASSISTANT)
    old = [Message(new_id(), "c", None, roles[i % 2], f"number{i} " + "word " * 50) for i in range(10)]
    question = Message(new_id(), "c", None, Role.USER, "and now?")
    requested = {"context_policy": policy, "max_new_tokens": 5}
    live = lab.engine.submit(RunRequest(new_id(), "c", new_id(), messages=(*old, question), requested=requested))
    ended = live.result(60)
    if policy == "stop":
        assert ended.run.status is RunStatus.FAILED
        assert "context policy is “stop”" in (ended.run.error or "")
        return
    read = lab.loaded.tokenizer.decode(list(ended.run.prompt_ids))
    kept = [i for i in range(10) if f"number{i} " in read]
    expected = {"drop_oldest": lambda k: k[0] > 0 and k[-1] == 9, "keep_first": lambda k: k[0] == 0 and k[-1] == 9}
    expected["drop_middle"] = lambda k: k[0] == 0 and k[-1] == 9 and len(k) < 10
    assert expected[policy](kept), kept
    assert any("left out" in note for note in ended.run.notes)
