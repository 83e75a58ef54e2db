"""Presets over their routes: kept, renamed, deleted, exchanged, and the one that a model's new conversations start with."""

from __future__ import annotations

import json

from fastapi.testclient import TestClient

from app.chat import Chat
from app.parameters.presets import shipped
from tests.ui.fakes import FakeEngine
from ui.preset_shelf import Shelf


def test_shipped_presets_come_first_and_their_names_cannot_be_taken(client: TestClient) -> None:
    names = [preset["name"] for preset in client.get("/api/presets").json()["presets"]]
    assert names == [preset.name for preset in shipped()]
    refused = client.post("/api/presets", json={"name": names[0], "parameters": {}})
    assert refused.status_code == 400
    assert "comes with Fader" in refused.json()["error"]


def test_save_rename_delete_and_what_was_deleted_comes_back(client: TestClient) -> None:
    saved = client.post("/api/presets", json={"name": "  My   own ", "parameters": {"temperature": 1}}).json()
    assert saved["name"] == "My own"
    assert saved["presets"][-1] == {
        "name": "My own",
        "description": "",
        "own": True,
        "parameters": {"temperature": 1.0},
    }
    renamed = client.post("/api/presets/rename", json={"name": "My own", "to": "Mine"}).json()
    assert [p["name"] for p in renamed["presets"] if p["own"]] == ["Mine"]
    deleted = client.post("/api/presets/delete", json={"name": "Mine"}).json()
    assert deleted["parameters"] == {"temperature": 1.0}
    assert not [p for p in deleted["presets"] if p["own"]]
    assert client.post("/api/presets/delete", json={"name": "Mine"}).status_code == 404


def test_what_cannot_be_kept_is_refused_and_changes_nothing(client: TestClient) -> None:
    for name, parameters in (("", {}), ("x" * 81, {}), ("a", {"temperature": 9}), ("a", {"nonsense": 1})):
        assert client.post("/api/presets", json={"name": name, "parameters": parameters}).status_code == 400
    client.post("/api/presets", json={"name": "a", "parameters": {}})
    client.post("/api/presets", json={"name": "b", "parameters": {}})
    assert "already" in client.post("/api/presets/rename", json={"name": "a", "to": "b"}).json()["error"]
    assert [p["name"] for p in client.get("/api/presets").json()["presets"] if p["own"]] == ["a", "b"]


def test_each_model_has_its_own_default_that_follows_a_rename(
    client: TestClient, chat: Chat, engine: FakeEngine
) -> None:
    client.post("/api/presets", json={"name": "a", "parameters": {"top_k": 3}})
    client.post("/api/presets/default", json={"name": "a"})
    assert Shelf(chat).start().parameters == {"top_k": 3}
    engine.load("another")
    assert Shelf(chat).start().parameters == {}
    client.post("/api/presets/rename", json={"name": "a", "to": "z"})
    engine.load("fake")
    assert client.get("/api/presets").json()["default"] == "z"
    client.post("/api/presets/delete", json={"name": "z"})
    assert Shelf(chat).start().parameters == {}
    client.post("/api/presets/default", json={"name": None})
    assert client.get("/api/presets").json()["default"] is None


def test_a_file_that_is_exported_can_be_read_again_and_a_bad_one_is_named(client: TestClient) -> None:
    text = client.post("/api/presets/export", json={"name": "a", "parameters": {"top_k": 3}}).json()["text"]
    assert json.loads(text)["parameters"] == {"top_k": 3}
    report = client.post("/api/presets/import", json={"text": text}).json()
    assert report == {"name": "a", "parameters": {"top_k": 3}, "problems": {}}
    mixed = client.post("/api/presets/import", json={"text": '{"top_k": 3, "top_p": 7, "sparkle": 1}'}).json()
    assert mixed["parameters"] == {"top_k": 3}
    assert set(mixed["problems"]) == {"top_p", "sparkle"}
    assert "not JSON" in client.post("/api/presets/import", json={"text": "{"}).json()["error"]


def test_the_table_and_the_tokens_of_typed_texts(client: TestClient) -> None:
    table = client.get("/api/parameters").json()
    assert table["top_k"]["group_id"] == "logits"
    assert table["epsilon_cutoff"]["log_low"] == 1e-5
    shown = client.post("/api/parameters/tokens", json={"name": "bad_words_ids", "text": "a"}).json()
    assert shown == {"entries": [], "model": False}
    assert client.post("/api/parameters/tokens", json={"name": "nonsense", "text": "a"}).status_code == 400
