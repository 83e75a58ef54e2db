"""The playground's routes over a tiny real model: what the page gets is what was recorded, before and after a restart."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app.chat import Chat
from app.conversation import Run
from app.engine.engine import Engine
from app.engine.trace import Trace
from app.models.loading import LoadedModel
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel, models, tiny
from ui.server import create_api

__all__ = ["models", "tiny"]

SAMPLED = {"temperature": 1.0, "top_k": 5, "top_p": 1.0, "seed": 3, "max_new_tokens": 12}


def open_chat(home: Path, tiny: LoadedModel) -> Chat:
    model = OneModel(tiny)
    model.gate.set()
    settings = Settings(home=home, prefill_chunk=16)
    chat = Chat(open_store(home), Engine(model, settings), settings)
    assert chat.engine.load("tiny").finished.wait(60)
    return chat


def client_of(chat: Chat) -> TestClient:
    return TestClient(create_api(chat, chat.settings), base_url="http://127.0.0.1:7860", headers={"X-Fader": "1"})


@pytest.fixture
def chat(fader_home: Path, tiny: LoadedModel) -> Iterator[Chat]:
    made = open_chat(fader_home, tiny)
    yield made
    made.close()


@pytest.fixture
def client(chat: Chat) -> Iterator[TestClient]:
    with client_of(chat) as client:
        yield client


Replied = Callable[..., Run]


@pytest.fixture
def replied(chat: Chat) -> Replied:
    """Send a message and wait until the reply is stored."""

    def send(**requested: Any) -> Run:
        started = chat.send("hello there", requested=SAMPLED | requested)
        started.run.result(60)
        chat.wait_until_kept(started.run.id)
        return chat.store.run(started.run.id)

    return send


def test_the_tokens_are_those_of_the_reply_with_their_figures(client: TestClient, chat: Chat, replied: Replied) -> None:
    run = replied()
    view = client.get(f"/api/runs/{run.id}/tokens").json()
    packed = chat.store.trace(run.id)
    assert packed
    trace = Trace.unpack(packed)
    assert view["ids"] == list(run.output_ids)
    assert "".join(view["texts"]).removesuffix("<|im_end|>").startswith(chat.store.message(run.message_id).content[:5])
    assert view["from"] == 0
    assert view["k"] == 20
    assert [stage["name"] for stage in view["stages"]][-1] == "top_k"
    kept = [c for c in view["alternatives"]["processed"][:20] if c]
    assert len(kept) == 5
    assert sum(kept) == pytest.approx(1_000_000, abs=10)
    assert view["raw"] == pytest.approx((trace.raw_probability * 1e6).tolist(), abs=1)
    removed = view["alternatives"]["removed_by"][:20]
    assert {view["stages"][i]["name"] for i in removed if i != 255} == {"top_k"}
    assert str(view["alternatives"]["ids"][0]) in view["pieces"]


def test_everything_is_there_after_a_restart(fader_home: Path, tiny: LoadedModel) -> None:
    first = open_chat(fader_home, tiny)
    started = first.send("hello there", requested=SAMPLED)
    started.run.result(60)
    with client_of(first) as client:
        first.wait_until_kept(started.run.id)
        before = client.get(f"/api/runs/{started.run.id}/tokens").json()
    first.close()
    again = open_chat(fader_home, tiny)
    with client_of(again) as client:
        assert client.get(f"/api/runs/{started.run.id}/tokens").json() == before
        replay = client.post(f"/api/runs/{started.run.id}/replay").json()["replay"]
        live = again.live(replay)
        assert live
        live.result(60)
        outcome = client.get(f"/api/runs/{started.run.id}/replay/{replay}").json()
    again.close()
    assert outcome["done"]
    assert outcome["identical"]


def test_a_reply_without_a_trace_says_why(client: TestClient, replied: Replied) -> None:
    run = replied(trace_top_k=0)
    view = client.get(f"/api/runs/{run.id}/tokens").json()
    assert "trace_top_k was 0" in view["reason"]
    assert view["ids"] == list(run.output_ids)
    refused = client.get(f"/api/runs/{run.id}/effects")
    assert refused.status_code == 400
    assert "trace_top_k was 0" in refused.json()["error"]


def test_the_report_names_every_stage(client: TestClient, replied: Replied) -> None:
    run = replied(min_p=0.000001)
    report = {line["name"]: line for line in client.get(f"/api/runs/{run.id}/effects").json()}
    assert report["top_k"]["acted"] == len(run.output_ids)
    assert report["min_p"]["mattered"] is False
    assert "Never mattered" in report["min_p"]["sentence"]


def test_an_alternative_leads_to_a_sibling_that_takes_it(client: TestClient, chat: Chat, replied: Replied) -> None:
    run = replied()
    view = client.get(f"/api/runs/{run.id}/tokens").json()
    other = next(i for i in view["alternatives"]["ids"][60:80] if i not in (view["ids"][3], *view["ends"]))
    made = client.post(f"/api/messages/{run.message_id}/token", json={"position": 3, "token": other}).json()
    chat.live(made["run"]).result(60)  # type: ignore[union-attr]
    chat.wait_until_kept(made["run"])
    new = chat.store.run(made["run"])
    assert new.output_ids[:4] == (*run.output_ids[:3], other)
    branched = client.get(f"/api/runs/{new.id}/tokens").json()
    assert branched["from"] == 4
    assert len(branched["raw"]) == len(new.output_ids) - 4


def test_going_on_from_a_token_draws_anew(client: TestClient, chat: Chat, replied: Replied) -> None:
    run = replied()
    made = client.post(
        f"/api/messages/{run.message_id}/token", json={"position": 4, "token": "", "new_draws": True}
    ).json()
    chat.live(made["run"]).result(60)  # type: ignore[union-attr]
    chat.wait_until_kept(made["run"])
    new = chat.store.run(made["run"])
    assert new.output_ids[:4] == run.output_ids[:4]
    assert new.seed != run.seed


def bits(view: dict[str, Any], k: int) -> Any:
    return np.unpackbits(np.frombuffer(base64.b64decode(view["kept"]), np.uint8))[: len(view["choice"]) * k].reshape(
        -1, k
    )


def test_what_if_tells_what_remains_and_running_it_for_real_agrees(
    client: TestClient, chat: Chat, replied: Replied
) -> None:
    run = replied()
    moved = client.post(f"/api/runs/{run.id}/what-if", json={"changes": {"top_k": 1}}).json()
    assert bits(moved, 20).sum(axis=1).tolist() == [1] * len(run.output_ids)
    first = moved["first_change"]
    assert first is not None
    made = client.post(f"/api/runs/{run.id}/for-real", json={"changes": {"top_k": 1}}).json()
    chat.live(made["run"]).result(60)  # type: ignore[union-attr]
    chat.wait_until_kept(made["run"])
    new = chat.store.run(made["run"])
    assert new.seed == run.seed
    assert new.effective["top_k"] == 1
    assert new.output_ids[: first + 1] == (*run.output_ids[:first], moved["choice"][first])


def test_what_if_refuses_in_words(client: TestClient, replied: Replied) -> None:
    run = replied()
    bad = client.post(f"/api/runs/{run.id}/what-if", json={"changes": {"top_p": 7}})
    assert bad.status_code == 400
    assert "top_p" in bad.json()["error"]
    unknown = client.post(f"/api/runs/{run.id}/what-if", json={"changes": {"num_beams": 2}})
    assert "num_beams can't be moved" in unknown.json()["error"]
    greedy = replied(temperature=0)
    told = client.post(f"/api/runs/{greedy.id}/what-if", json={"changes": {"temperature": 0.5}}).json()
    assert "no random draws" in told["reason"]


def test_a_reply_of_another_model_is_not_read_with_the_wrong_tokenizer(
    client: TestClient, chat: Chat, replied: Replied
) -> None:
    from dataclasses import replace

    run = replied()
    desk = chat.engine.desk
    assert desk
    desk.facts = replace(desk.facts, fingerprint={"name": "another"})
    refused = client.get(f"/api/runs/{run.id}/tokens")
    assert refused.status_code == 409
    assert "another can't read" in refused.json()["error"]


def test_text_and_ids_go_there_and_back(client: TestClient) -> None:
    tokens = client.post("/api/tokenize", json={"text": "héllo <|im_end|>"}).json()["tokens"]
    assert "".join(text for _, text, _ in tokens) == "héllo <|im_end|>"
    assert not any(special for _, _, special in tokens)
    back = client.post("/api/detokenize", json={"ids": [i for i, _, _ in tokens]}).json()
    assert back["text"] == "héllo <|im_end|>"
    control = client.post("/api/tokenize", json={"text": "a<|im_end|>", "control": True}).json()["tokens"]
    assert control[-1][1:] == ["<|im_end|>", True]
    wrong = client.post("/api/detokenize", json={"ids": [10**9]})
    assert "There is no token 1000000000" in wrong.json()["error"]


def scored(client: TestClient, chat: Chat, text: str) -> dict[str, Any]:
    job = client.post("/api/perplexity", json={"text": text}).json()["job"]
    while not (answer := client.get(f"/api/perplexity/{job}").json())["done"]:
        chat.engine.status()
    found: dict[str, Any] = answer
    return found


def test_perplexity_is_that_of_the_model(client: TestClient, chat: Chat, tiny: LoadedModel) -> None:
    import torch

    text = "The capital of France is Paris, and the reader is content with that. " * 3
    answer = scored(client, chat, text)
    ids = answer["view"]["ids"]
    with torch.inference_mode():
        logits = tiny.model(torch.tensor([ids])).logits[0, :-1].float()
    expected = float(torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:])).exp())
    assert answer["figures"]["perplexity"] == pytest.approx(expected, rel=0.03)
    assert answer["figures"]["tokens"] == len(ids) - 1
    assert "".join(answer["view"]["texts"]) == text
    assert answer["view"]["from"] == 1
    assert answer["view"]["k"] == 20


def test_a_text_that_can_not_be_scored_is_refused_at_once(client: TestClient) -> None:
    assert "At least two tokens" in client.post("/api/perplexity", json={"text": ""}).json()["error"]
    assert "reads" in client.post("/api/perplexity", json={"text": "word " * 9000}).json()["error"]


def test_a_watermark_is_found_in_the_reply_that_has_it_and_in_no_other(client: TestClient, replied: Replied) -> None:
    config = {"kind": "greenlist", "bias": 6.0}
    marked = replied(watermarking_config=config, temperature=4.0, top_k=0, max_new_tokens=80, min_new_tokens=80)
    plain = replied(temperature=4.0, top_k=0, max_new_tokens=80, min_new_tokens=80)
    found = client.post("/api/watermark", json={"run": marked.id}).json()
    assert found["marked"], found
    assert not client.post("/api/watermark", json={"run": plain.id, "config": config}).json()["marked"]
    short = client.post("/api/watermark", json={"text": "a"}).json()
    assert "too short" in short["sentence"]
    bad = client.post("/api/watermark", json={"text": "a", "config": {"kind": "nonsense"}})
    assert bad.status_code == 400


def test_the_models_inside_is_shown_where_it_was_asked_for(client: TestClient, replied: Replied) -> None:
    refused = client.get(f"/api/runs/{replied().id}/inside")
    assert refused.status_code == 404
    assert "output_hidden_states" in refused.json()["error"]
    run = replied(output_hidden_states=True, output_scores=True, output_logits=True)
    kept = client.get(f"/api/runs/{run.id}/inside").json()["kept"]
    assert kept == {"logits": 12, "scores": 12, "hidden_states": 12, "attentions": 0}
    view = client.get(f"/api/runs/{run.id}/tokens").json()
    layers = client.get(f"/api/runs/{run.id}/inside/lens", params={"token": 3}).json()
    assert len(layers) == 3
    first = view["alternatives"]["ids"][60]
    assert layers[-1][0][0] == first
    assert layers[-1][0][2] == pytest.approx(view["alternatives"]["raw"][60] / 1e6, abs=2e-3)
    table = client.get(f"/api/runs/{run.id}/inside/scores.csv").text.splitlines()
    assert table[0] == "position,rank,token id,token,scores"
    assert len([line for line in table[1:] if line.startswith("0,")]) == 5
    late = client.get(f"/api/runs/{run.id}/inside/lens", params={"token": 99})
    assert "first 12 tokens" in late.json()["error"]
    blind = client.get(f"/api/runs/{run.id}/inside/attention", params={"token": 0})
    assert "output_attentions" in blind.json()["error"]


def test_attention_tells_where_the_model_looked(fader_home: Path, shared_cache: Path, tmp_path: Path) -> None:
    from app.models.loading import load_model
    from app.models.options import LoadOptions
    from tests.models.tiny import tiny_llama

    settings = Settings(home=fader_home, cache=shared_cache)
    eager = load_model(str(tiny_llama(tmp_path / "eager")), settings, options=LoadOptions(attention="eager"))
    chat = open_chat(fader_home, eager)
    started = chat.send("hello there", requested=SAMPLED | {"output_attentions": True})
    run = started.run.result(60).run
    chat.wait_until_kept(run.id)
    with client_of(chat) as client:
        assert client.get(f"/api/runs/{run.id}/inside").json()["layers"] == 2
        told = client.get(f"/api/runs/{run.id}/inside/attention", params={"token": 4}).json()
        one = client.get(f"/api/runs/{run.id}/inside/attention", params={"token": 4, "layer": 1}).json()
        wrong = client.get(f"/api/runs/{run.id}/inside/attention", params={"token": 4, "layer": 2})
    chat.close()
    assert len(told["weights"]) == len(told["texts"]) == len(run.prompt_ids) + 4
    assert sum(told["weights"]) == pytest.approx(1, abs=0.02)
    assert one["weights"] != told["weights"]
    assert "hello there" in "".join(told["texts"])
    assert "2 layers" in wrong.json()["error"]
