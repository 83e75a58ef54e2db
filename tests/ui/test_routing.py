"""A reply's way through the experts as the page gets it: read on demand, explained, exported; dense models say so."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.chat import Chat
from app.conversation import Json, Run
from app.models.loading import LoadedModel
from app.models.service import ModelService
from app.settings import Settings
from tests.engine.conftest import tiny
from tests.models.tiny import tiny_ernie_moe
from tests.ui.test_insight import SAMPLED, client_of, open_chat

__all__ = ["tiny"]


@pytest.fixture(scope="module")
def ernie(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> LoadedModel:
    folder = tiny_ernie_moe(tmp_path_factory.mktemp("models") / "ernie")
    return ModelService(Settings(cache=shared_cache)).load(str(folder))


@pytest.fixture
def chat(fader_home: Path, ernie: LoadedModel) -> Iterator[Chat]:
    made = open_chat(fader_home, ernie)
    yield made
    made.close()


@pytest.fixture
def client(chat: Chat) -> Iterator[TestClient]:
    with client_of(chat) as client:
        yield client


@pytest.fixture
def run(chat: Chat) -> Run:
    return reply(chat)


def reply(chat: Chat) -> Run:
    started = chat.send("hello there", requested=SAMPLED | {"min_new_tokens": 12})
    started.run.result(60)
    chat.wait_until_kept(started.run.id)
    return chat.store.run(started.run.id)


def read(client: TestClient, chat: Chat, run: Run) -> Json:
    """Ask for it, let the engine come to it, and look again."""
    client.post(f"/api/runs/{run.id}/experts", json={})
    chat.engine.score(run.prompt_ids).finished.wait(60)  # stands in line behind it
    return client.get(f"/api/runs/{run.id}/experts").json()


def test_the_map_counts_every_choice_and_the_figures_are_explained(client: TestClient, chat: Chat, run: Run) -> None:
    view = read(client, chat, run)
    assert view["done"]
    assert (view["experts"], view["per_token"], view["layers"]) == (8, 2, [1, 2])
    assert view["tokens"] == view["kept"] == len(run.output_ids)
    assert [sum(row) for row in view["counts"]] == [24, 24]
    words = " ".join(view["sentences"])
    assert "Each token goes to 2 of 8 experts in each of 2 layers" in words
    assert "1 when every expert got the same number of tokens, 0 when one got all" in words
    assert "correction bias" in words
    for row, figures in zip(view["counts"], view["figures"], strict=True):
        assert figures["unused"] == row.count(0)
        assert row[figures["top"]] == max(row)


def test_one_tokens_way_and_one_experts_tokens_agree(client: TestClient, chat: Chat, run: Run) -> None:
    view = read(client, chat, run)
    base = f"/api/runs/{run.id}/experts"
    way = client.get(f"{base}/token", params={"position": 5}).json()
    assert [step["layer"] for step in way] == [1, 2]
    for index, step in enumerate(way):
        assert sum(one["weight"] for one in step["experts"]) == pytest.approx(1, abs=0.01)
        for one in step["experts"]:
            tokens = client.get(f"{base}/tokens", params={"layer": index, "expert": one["expert"]}).json()
            assert 5 in tokens
            assert len(tokens) == view["counts"][index][one["expert"]]
    late = client.get(f"{base}/token", params={"position": 12})
    assert "first 12 tokens" in late.json()["error"]
    assert client.get(f"{base}/tokens", params={"layer": 2, "expert": 0}).status_code == 400


def test_it_is_exported_as_a_table_and_with_all_scores(client: TestClient, chat: Chat, run: Run) -> None:
    read(client, chat, run)
    base = f"/api/runs/{run.id}/experts"
    table = client.get(f"{base}/table.csv")
    assert table.headers["content-disposition"] == 'attachment; filename="experts.csv"'
    lines = list(csv.DictReader(io.StringIO(table.text)))
    assert len(lines) == 12 * 2 * 2
    assert [line["token id"] for line in lines[::4]] == [str(i) for i in run.output_ids]
    whole = client.get(f"{base}/table.json").json()
    assert whole["run"] == run.id
    assert len(whole["routing"]) == 12
    first: dict[str, Any] = whole["routing"][0]
    assert lines[0]["expert"] == str(first["layers"][0]["experts"][0]["expert"])
    for step, scores in zip(first["layers"], first["scores"], strict=True):
        assert len(scores) == 8
        for one in step["experts"]:
            assert one["score"] == scores[one["expert"]]
            assert one["place"] == sum(score > one["score"] for score in scores)


def test_a_dense_model_says_so_plainly(fader_home: Path, tiny: LoadedModel) -> None:
    dense = open_chat(fader_home, tiny)
    with client_of(dense) as client:
        answer = client.post(f"/api/runs/{reply(dense).id}/experts", json={})
    dense.close()
    assert answer.status_code == 200
    assert answer.json()["error"].startswith("This model is dense: every token passes through all of its weights")


def test_a_reading_that_is_stopped_is_forgotten(client: TestClient, chat: Chat, run: Run) -> None:
    held = chat.send("hold the engine", requested={"max_new_tokens": 400, "min_new_tokens": 400})
    base = f"/api/runs/{run.id}/experts"
    waiting = client.post(base, json={}).json()
    assert waiting == {"done": False, "read": 0, "of": len(run.prompt_ids) + len(run.output_ids)}
    client.post(f"{base}/stop", json={})
    assert client.get(base).status_code == 404
    held.run.cancel()
    assert read(client, chat, run)["error"] is None


def test_only_the_last_replies_are_kept(client: TestClient, chat: Chat, run: Run) -> None:
    read(client, chat, run)
    for _ in range(2):
        read(client, chat, reply(chat))
    gone = client.get(f"/api/runs/{run.id}/experts")
    assert gone.status_code == 404
    assert "Read it again" in gone.json()["error"]
