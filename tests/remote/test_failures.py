"""What goes wrong between here and a server is said in words; what had come of a reply is kept."""

from __future__ import annotations

import json
import logging
import socket

import pytest

from app.conversation import FinishReason, RunStatus
from app.engine.events import TextDelta
from app.errors import FaderError, ModelNotFound, RefusedInput, RemoteFailed
from tests.remote.conftest import Choose
from tests.remote.fake_server import Asked, FakeServer, Json, piece, refuse, say
from tests.remote.test_reply import reply, text_of

KEY = "sk-very-secret"


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        (401, "bad key", "asks for a key"),
        (403, "no", "FADER_REMOTE_KEY"),
        (404, "The model `small` does not exist.", "has no model “small”"),
        (400, "This model's maximum context length is 4096 tokens.", "too long"),
        (400, "temperature must be below 2", "temperature must be below 2"),
        (429, "quota", "takes no more requests"),
        (500, "CUDA error", "failed at this request (HTTP 500). It says: CUDA error"),
        (503, "", "failed at this request (HTTP 503)"),
        (307, "", "points to another address"),
    ],
)
def test_a_refused_request_fails_with_the_servers_own_words(
    choose: Choose, server: FakeServer, status: int, said: str, words: str
) -> None:
    server.answer = refuse(status, said)
    chat = choose()
    run = reply(chat)
    assert (run.status, run.finish_reason) == (RunStatus.FAILED, FinishReason.ERROR)
    assert words in str(run.error)
    assert str(run.error).startswith("127.0.0.1:")
    server.answer = say("better")
    assert text_of(chat, reply(chat)) == "better"


@pytest.mark.parametrize("done", ["nothing", "reset"])
def test_a_reply_that_is_cut_in_the_middle_is_kept(choose: Choose, server: FakeServer, done: str) -> None:
    def answer(asked: Asked, _body: Json) -> None:
        asked.begin()
        asked.event(piece("half a"))
        if done == "reset":
            asked.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            asked.connection.close()

    server.answer = answer
    chat = choose()
    run = reply(chat)
    assert (run.status, text_of(chat, run)) == (RunStatus.FAILED, "half a")
    assert "what had come is kept" in str(run.error)


def test_an_error_in_the_place_of_a_piece_is_told(choose: Choose, server: FakeServer) -> None:
    server.answer = say("some", {"error": {"message": "out of memory on the card"}})
    chat = choose()
    run = reply(chat)
    assert text_of(chat, run) == "some"
    assert "out of memory on the card" in str(run.error)


def test_what_is_no_json_is_told(choose: Choose, server: FakeServer) -> None:
    def answer(asked: Asked, _body: Json) -> None:
        asked.begin()
        asked.event("{half")

    server.answer = answer
    assert "can't be understood" in str(reply(choose()).error)


def test_a_server_that_is_gone_fails_the_run_and_not_the_next_one(choose: Choose, server: FakeServer) -> None:
    chat = choose()
    address = server.server_address
    server.shutdown()
    server.server_close()
    assert "can't be reached" in str(reply(chat).error)
    assert chat.engine.status().state == "ready"
    assert address


def test_stop_closes_the_connection_while_the_next_token_is_awaited(choose: Choose, server: FakeServer) -> None:
    def answer(asked: Asked, _body: Json) -> None:
        asked.begin()
        asked.event(piece("so far"))
        asked.until_closed()

    server.answer = answer
    chat = choose()
    started = chat.send("hi")
    next(event for _, event in started.run.events() if isinstance(event, TextDelta))
    chat.stop(started.run.id)
    ended = started.run.result(30)
    assert (ended.run.status, ended.run.finish_reason, ended.text) == (
        RunStatus.STOPPED,
        FinishReason.STOPPED,
        "so far",
    )
    assert server.closed.wait(30)


def test_stop_is_heard_before_the_server_says_anything(choose: Choose, server: FakeServer) -> None:
    def silent(asked: Asked, _body: Json) -> None:
        asked.until_closed()

    server.answer = silent
    chat = choose()
    started = chat.send("hi")
    assert server.arrived.wait(30)
    chat.stop(started.run.id)
    assert started.run.result(30).run.status is RunStatus.STOPPED
    assert server.closed.wait(30)


def test_the_key_goes_to_its_own_server_only_and_is_kept_nowhere(
    choose: Choose, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    chat = choose(remote_url=server.base, remote_key=KEY)
    server.answer = refuse(401, "wrong")
    run = reply(chat)
    assert "refuses the key" in str(run.error)
    assert all(headers["Authorization"] == f"Bearer {KEY}" for headers in server.headers)
    kept = json.dumps([dict(run.model_fingerprint), dict(run.effective), run.notes, run.error, repr(chat.settings)])
    assert KEY not in kept
    assert KEY not in caplog.text
    assert KEY.encode() not in chat.settings.database.read_bytes()
    chat.close()
    server.headers.clear()
    elsewhere = choose(remote_url="http://127.0.0.1:9/v1", remote_key=KEY)
    reply(elsewhere)
    assert server.headers
    assert all("Authorization" not in headers for headers in server.headers)
    report = elsewhere.engine.report
    assert report
    assert any("is not sent here" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("http://127.0.0.1:1/v1", RemoteFailed, "can't be reached"),
        ("http://user:pass@127.0.0.1:1/v1", RefusedInput, "FADER_REMOTE_KEY"),
        ("http://127.0.0.1:1/v1?key=1", RefusedInput, "FADER_REMOTE_KEY"),
        ("http://:80", ModelNotFound, "names no host"),
        ("http://127.0.0.1:port/v1", ModelNotFound, "not an address"),
    ],
)
def test_addresses_that_cannot_be_used(choose: Choose, name: str, error: type[FaderError], words: str) -> None:
    with pytest.raises(error, match=words):
        choose(name)


def test_a_model_is_looked_for_on_its_server(choose: Choose, server: FakeServer) -> None:
    server.models = [{"id": "a/first"}, {"id": "second"}]
    with pytest.raises(ModelNotFound, match=r"several models: a/first, second\. Choose one"):
        choose()
    with pytest.raises(ModelNotFound, match=r"has no model “third”\. It has a/first, second"):
        choose(f"{server.base}#third")
    chat = choose(f"{server.base}#a/first")
    facts = chat.engine.status().facts
    assert facts
    assert facts.label == "first"
    reply(chat)
    assert server.asked[-1]["model"] == "a/first"


def test_a_server_that_lists_nothing_is_believed(choose: Choose, server: FakeServer) -> None:
    server.models = None
    with pytest.raises(RemoteFailed, match="doesn't list its models"):
        choose()
    chat = choose(f"{server.base}#mine")
    reply(chat)
    assert server.asked[-1]["model"] == "mine"
    assert chat.engine.report
    assert "was not checked" in chat.engine.report.warnings[0]
