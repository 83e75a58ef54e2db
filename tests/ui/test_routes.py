"""The page's own routes, as the script asks them."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest
from fastapi.testclient import TestClient

from app.chat import Chat
from app.engine.run import RunRequest
from app.models.measure import LoadReport
from tests.ui.fakes import FakeEngine


def test_health_names_the_model(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "model": "fake"}


def test_a_run_is_followed_by_what_changed(client: TestClient, chat: Chat, engine: FakeEngine) -> None:
    def script(_request: RunRequest) -> Iterator[str]:
        yield from ("first\n", "\nsecond\n", "\nthird")

    engine.script = script
    started = chat.send("hello")
    started.run.result(5)
    everything = client.get(f"/api/runs/{started.run.id}").json()
    assert everything["done"]
    assert [segment["blocks"] for segment in everything["segments"]] == [
        ["<p>first</p>", "<p>second</p>", "<p>third</p>"]
    ]
    assert everything["run"]["stats"][0]["text"] == "3 tokens"
    nothing = client.get(f"/api/runs/{started.run.id}", params={"after": everything["seq"]}).json()
    assert nothing["segments"] == []
    last = next(number for number, event in started.run.read() if getattr(event, "text", "") == "\nthird")
    tail = client.get(f"/api/runs/{started.run.id}", params={"after": last - 1}).json()["segments"][0]
    assert tail["from"] == 2
    assert tail["blocks"] == ["<p>third</p>"]


@pytest.mark.parametrize(("turns", "paragraphs"), [(1, 5), (1, 2_000), (60, 5)])
def test_an_update_is_small_in_a_long_conversation_and_late_in_a_long_reply(
    client: TestClient, chat: Chat, engine: FakeEngine, turns: int, paragraphs: int
) -> None:
    held = Event()

    def script(_request: RunRequest) -> Iterator[str]:
        yield from ("a paragraph of the reply\n\n" for _ in range(paragraphs))
        yield "and one word"
        held.wait(30)

    talk = None
    for _ in range(turns - 1):
        before = chat.send("word " * 100, conversation_id=talk)
        talk = before.conversation.id
        before.run.result(30)
    engine.script = script
    started = chat.send("go on", conversation_id=talk)
    last = next(number for number, event in started.run.events() if getattr(event, "text", "") == "and one word")
    update = client.get(f"/api/runs/{started.run.id}", params={"after": last - 1})
    held.set()
    assert update.json()["segments"][0]["blocks"] == ["<p>and one word</p>"]
    assert len(update.content) < 500


def test_a_run_of_an_earlier_process_is_read_from_the_store(client: TestClient, chat: Chat, engine: FakeEngine) -> None:
    started = chat.send("hello")
    started.run.result(5)
    chat._recorder.join()
    engine._runs.clear()
    update = client.get(f"/api/runs/{started.run.id}").json()
    assert update["done"]
    assert update["text"] == "You said: hello"


def test_stop_ends_the_computation_once(client: TestClient, chat: Chat, engine: FakeEngine) -> None:
    engine.step_s = 0.01
    started = chat.send("x" * 10_000)
    assert client.post(f"/api/runs/{started.run.id}/stop").json() == {"stopped": True}
    assert started.run.result(5).run.status == "stopped"
    assert client.post(f"/api/runs/{started.run.id}/stop").json() == {"stopped": False}


def test_a_failing_model_is_told_with_its_sentence(client: TestClient, chat: Chat, engine: FakeEngine) -> None:
    def script(_request: RunRequest) -> Iterator[str]:
        yield "half"
        message = "out of numbers"
        raise RuntimeError(message)

    engine.script = script
    started = chat.send("hello")
    started.run.result(5)
    update = client.get(f"/api/runs/{started.run.id}").json()
    assert update["run"]["error"] == "out of numbers"
    assert update["text"] == "half"


def test_a_conversation_opens_with_its_last_hundred_messages(client: TestClient, chat: Chat) -> None:
    started = chat.send("message 0")
    started.run.result(5)
    for n in range(1, 60):
        chat.send(f"message {n}", conversation_id=started.conversation.id).run.result(5)
    view = client.get(f"/api/conversations/{started.conversation.id}").json()
    assert len(view["messages"]) == 100
    assert view["earlier"] == 20
    above = client.get(
        f"/api/conversations/{started.conversation.id}", params={"before": view["messages"][0]["id"]}
    ).json()
    assert above["messages"][0]["text"] == "message 0"
    assert len(above["messages"]) == 20


def test_the_list_is_paged_and_says_whether_more_follows(client: TestClient, chat: Chat) -> None:
    for n in range(101):
        chat.send(f"conversation {n}")
    first = client.get("/api/conversations").json()
    assert len(first["conversations"]) == 100
    assert first["more"]
    second = client.get("/api/conversations", params={"page": 1}).json()
    assert [len(second["conversations"]), second["more"]] == [1, False]


def test_snippets_mark_the_match_and_escape_the_rest(client: TestClient, chat: Chat) -> None:
    chat.send("<b>needle</b> in the hay")
    found = client.get("/api/conversations", params={"q": "needle"}).json()["conversations"]
    assert "&lt;b&gt;<mark>needle</mark>" in found[0]["snippet"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/api/conversations/nonesuch", {"title": "x"}, 404, "conversation"),
        ("/api/conversations/nonesuch", {"title": ""}, 400, "title"),
        ("/api/conversations/trash", {"ids": []}, 400, "ids"),
        ("/api/conversations/trash", {}, 400, "ids"),
        ("/api/messages/nonesuch/show", {}, 404, "message"),
    ],
)
def test_bad_input_is_refused_in_words(client: TestClient, path: str, body: object, status: int, words: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize("query", [{"after": -1}, {"wait": 60}, {"after": "x"}])
def test_a_run_is_not_asked_for_nonsense(client: TestClient, query: dict[str, object]) -> None:
    assert client.get("/api/runs/any", params=query).status_code == 400  # type: ignore[arg-type]


def test_siblings_are_shown_and_remembered(client: TestClient, chat: Chat) -> None:
    first = chat.send("question")
    first.run.result(5)
    second = chat.regenerate(first.reply.id)
    second.run.result(5)
    view = client.post(f"/api/messages/{first.reply.id}/show").json()
    assert view["messages"][-1]["id"] == first.reply.id
    assert view["messages"][-1]["siblings"] == [first.reply.id, second.reply.id]
    assert client.get(f"/api/conversations/{first.conversation.id}").json()["messages"][-1]["place"] == 0


def test_the_model_view_tells_what_was_measured_and_what_the_store_has_to_say(
    client: TestClient, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = LoadReport(
        resident_bytes=113_000_000,
        bytes_by_dtype={"uint8": 53_000_000, "bfloat16": 60_000_000},
        share_4bit=0.79,
        linear_share_4bit=1.0,
        peak_bytes=370_000_000,
        seconds=4.2,
        warnings=("The prepared copy was made anew: a file was damaged.",),
    )
    monkeypatch.setattr(chat.engine, "report", report)
    monkeypatch.setattr(type(chat.store), "notices", property(lambda _: ("Damage was found.",)), raising=False)
    view = client.get("/api/model").json()
    assert ["In 4 bits", "79% of all weights, 100% of the linear layers"] in view["measured"]
    assert view["warnings"] == list(report.warnings)
    assert view["notices"] == ["Damage was found."]
