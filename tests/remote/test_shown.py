"""What the page is told of a model on a server and of its replies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app.chat import Chat
from tests.remote.conftest import Choose
from tests.remote.fake_server import FakeServer, Json, piece, say, token
from tests.remote.test_reply import reply
from ui.server import create_api


@pytest.fixture
def chat(choose: Choose) -> Chat:
    return choose()


@pytest.fixture
def client(chat: Chat) -> Iterator[TestClient]:
    with TestClient(
        create_api(chat, chat.settings), base_url="http://127.0.0.1:7860", headers={"X-Fader": "1"}
    ) as client:
        yield client


def logged(text: str, *entries: Json) -> Json:
    return piece(text, logprobs={"content": list(entries)})


def test_the_token_view_shows_the_servers_probabilities(chat: Chat, client: TestClient, server: FakeServer) -> None:
    """Also of a character that is cut into two tokens."""
    half = {"token": "\\xc3", "bytes": [0xC3], "logprob": -0.1, "top_logprobs": []}
    rest = {"token": "\\xa9", "bytes": [0xA9], "logprob": -0.1, "top_logprobs": []}
    server.answer = say(logged("Caf", token("Caf", 0.5, ("Bar", 0.25))), logged("é", half, rest))
    run = reply(chat)
    view = client.get(f"/api/runs/{run.id}/tokens").json()
    assert view["texts"] == ["Caf", "", "é"]
    assert view["raw"][0] == 500_000
    assert view["server"] == server.base.split("/")[2]
    assert "need a model on this machine" in view["note"]
    first = [view["pieces"][str(i)] for i in view["alternatives"]["ids"][: view["k"]]]
    assert first == ["Caf"]


@pytest.mark.parametrize(
    ("path", "body"),
    [("what-if", {"changes": {"temperature": 0.5}}), ("for-real", {"changes": {}}), ("replay", {})],
)
def test_what_cannot_be_done_with_it_is_refused_in_words(
    chat: Chat, client: TestClient, server: FakeServer, path: str, body: Json
) -> None:
    server.answer = say(logged("Yes", token("Yes", 0.5, ("No", 0.25))))
    run = reply(chat)
    answer = client.post(f"/api/runs/{run.id}/{path}", json=body)
    assert answer.status_code in (400, 409, 422)
    assert "need a model on this machine" in answer.text


def test_without_probabilities_the_reason_is_given(chat: Chat, client: TestClient) -> None:
    view = client.get(f"/api/runs/{reply(chat).id}/tokens").json()
    assert (view["ids"], view["reason"]) == ([], "The server gave no probabilities with this reply’s tokens.")


def test_the_status_says_where_the_model_is(chat: Chat, client: TestClient, server: FakeServer) -> None:
    host = server.base.split("/")[2]
    told = client.get("/api/model").json()
    assert told["remote"] == {"kind": "openai", "host": host, "leaves_machine": False, "context_known": False}
    assert (told["label"], told["device"], told["context_length"]) == ("small", host, None)
    assert told["measured"] == [["Interface", "OpenAI-compatible"]]
    loaded = chat.engine.held.loaded
    assert loaded
    assert loaded.facts.remote
    away = replace(loaded.facts, remote=replace(loaded.facts.remote, leaves_machine=True))
    chat.engine.held.status = replace(chat.engine.held.status, facts=away)
    assert client.get("/api/model").json()["remote"]["leaves_machine"] is True
