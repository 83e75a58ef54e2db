"""The commands with a model on a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from tests.remote.fake_server import FakeServer, refuse


@pytest.fixture
def fader(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    server.be_vllm()
    monkeypatch.setenv("FADER_REMOTE_URL", server.base)

    def call(*words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result

    return call


def test_ask_prints_the_record_of_a_reply_from_a_server(fader: Any, server: FakeServer) -> None:
    told = json.loads(fader("ask", "hi", "--model", server.base, "-p", "top_k=5", "--seed", "3", "--json").stdout)
    assert (told["text"], told["finish_reason"], told["model"]) == ("Hello there.", "eos", server.base)
    assert (told["effective"]["top_k"], told["seed"], told["output_ids"]) == (5, 3, [])
    assert told["stats"]["reused_tokens"] == 8
    assert "Hello there." in fader("ask", "hi", "--model", server.base).stdout


def test_a_refused_request_exits_with_1_and_its_sentence(fader: Any, server: FakeServer) -> None:
    server.answer = refuse(500, "broken")
    assert "broken" in fader("ask", "hi", "--model", server.base, code=1).stderr


def test_its_models_are_listed(fader: Any, server: FakeServer) -> None:
    rows = json.loads(fader("models", "list", "--json").stdout)
    remote = [row for row in rows if row["kind"] == "remote"]
    assert [row["name"] for row in remote] == [f"{server.base}#org/small"]
    assert "on the server" in fader("models", "list").stdout


def test_loading_it_tells_what_is_known_of_it(fader: Any, server: FakeServer) -> None:
    shown = fader("models", "load", server.base).stdout
    assert "nothing is held in memory here" in shown
    assert "vllm" in shown
    report = json.loads(fader("models", "load", server.base, "--json").stdout)
    assert (report["resident_bytes"], report["fingerprint"]["model"]) == (0, "org/small")
    assert "no memory here" in fader("models", "estimate", server.base).stdout
    assert "nothing to prepare" in fader("models", "prepare", server.base, code=2).stderr
