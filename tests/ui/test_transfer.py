"""Conversations out of the page and in again; what can't be read is refused in words and changes nothing."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient

from app.chat import Chat


def test_an_export_comes_in_again_without_replacing_anything(client: TestClient, chat: Chat) -> None:
    started = chat.send("Où est <la> bibliothèque?")
    started.run.result(5)
    chat.wait_until_kept(started.run.id)
    answer = client.get("/api/export", params={"format": "json", "id": started.conversation.id})
    assert answer.headers["content-disposition"].startswith("attachment;")
    again = client.post("/api/import", content=answer.content, headers={"X-File-Name": "chats.json"}).json()
    assert (again["imported"], again["skipped"]) == (0, 1)
    chat.store.trash([started.conversation.id])
    chat.store.purge([started.conversation.id])
    back = client.post("/api/import", content=answer.content, headers={"X-File-Name": "chats.json"}).json()
    assert back["imported"] == 1
    restored = client.get(f"/api/conversations/{started.conversation.id}").json()
    assert restored["messages"][0]["text"] == "Où est <la> bibliothèque?"


def test_a_web_page_runs_nothing_and_markdown_reads_well(client: TestClient, chat: Chat) -> None:
    started = chat.send("<script>alert(1)</script>")
    started.run.result(5)
    chat.wait_until_kept(started.run.id)
    ids = {"id": started.conversation.id}
    assert "<script" not in client.get("/api/export", params={"format": "html", **ids}).text.lower()
    assert "You said: <script>" in client.get("/api/export", params={"format": "md", **ids}).text


@pytest.mark.parametrize(
    ("query", "status"), [({"format": "pdf"}, 400), ({}, 400), ({"format": "md", "id": "nonesuch"}, 404)]
)
def test_what_cannot_be_exported_is_refused(client: TestClient, query: dict[str, str], status: int) -> None:
    answer = client.get("/api/export", params=query)
    assert answer.status_code == status
    assert answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"not json", b"[1, 2", json.dumps({"some": "thing"}).encode()])
def test_a_file_that_is_no_export_changes_nothing(client: TestClient, content: bytes) -> None:
    answer = client.post("/api/import", content=content, headers={"X-File-Name": "odd.json"})
    told = answer.json()
    assert answer.status_code == 400 or told["imported"] == 0, told
    assert client.get("/api/conversations").json()["conversations"] == []
