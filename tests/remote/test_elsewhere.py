"""What a model on a server can't do here is said plainly; what it is, and where text goes, is always to be seen."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import FaderError, NoModel, RefusedInput, UnsupportedModel
from app.models.catalogue import list_models, resolve
from app.models.facts import ModelFacts, Remote
from app.models.service import ModelService
from app.models.source import SourceKind
from app.parameters.remote import BY_FADER, STANDARD, VLLM
from app.parameters.resolve import resolve as resolve_parameters
from app.parameters.table import BY_NAME, TABLE
from app.remote.address import Address, parse
from app.settings import Settings
from tests.remote.conftest import Choose
from tests.remote.fake_server import FakeServer
from tests.remote.test_reply import reply


def facts(kind: Any = "openai", *, context: int | None = None) -> ModelFacts:
    remote = Remote(kind, "host:8000", leaves_machine=True, context_known=context is not None)
    return ModelFacts("https://host:8000/v1#m", "m", "", context or 131_072, 1 << 24, 1, remote=remote)


@pytest.mark.parametrize("kind", ["openai", "vllm"])
def test_every_row_is_sent_carried_out_here_or_refused_with_a_reason(kind: str) -> None:
    resolution = resolve_parameters({}, facts(kind))
    fields = VLLM if kind == "vllm" else STANDARD
    assert set(resolution.values) == {row.name for row in TABLE}
    for row in TABLE:
        told = resolution.explained[row.name]
        assert told.available == (row.name in fields or row.name in BY_FADER), row.name
        assert told.available or len(told.reason) > 20, row.name
        assert not told.available or "Not in use" not in told.reason, row.name


def test_the_tables_name_rows_that_exist() -> None:
    assert {*STANDARD, *VLLM, *BY_FADER} <= set(BY_NAME)


def test_a_length_is_fitted_to_the_servers_context_where_that_is_known() -> None:
    known = resolve_parameters({"max_new_tokens": 9000}, facts("vllm", context=4096))
    assert known.values["max_new_tokens"] == 4096
    assert "the server's context" in known.explained["max_new_tokens"].reason
    assert resolve_parameters({"max_new_tokens": 9000}, facts()).values["max_new_tokens"] == 9000


@pytest.mark.parametrize(
    ("asked", "sampled", "temperature"),
    [
        ({}, None, None),
        ({"temperature": 0}, False, 0.0),
        ({"do_sample": False}, False, 0.0),
        ({"top_p": 0.5}, True, None),
    ],
)
def test_greedy_or_by_chance(asked: dict[str, Any], sampled: bool | None, temperature: float | None) -> None:
    values = resolve_parameters(asked, facts()).values
    assert (values["do_sample"], values["temperature"]) == (sampled, temperature)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sequence_bias": [["blue", 2.0]]}, "single token ids only"),
        ({"output_format": {"kind": "regex", "pattern": "a"}}, "JSON schemas only"),
        ({"trace_top_k": 50}, "Clamped to 20"),
        ({"watermarking_config": {"kind": "greenlist"}}, "on the server"),
        ({"output_attentions": True}, "stays on the server"),
    ],
)
def test_values_that_a_server_cannot_take(asked: dict[str, Any], words: str) -> None:
    (name,) = asked
    assert words in resolve_parameters(asked, facts()).explained[name].reason


@pytest.mark.parametrize(
    ("name", "base", "model"),
    [
        ("https://host:8000/v1#org/model", "https://host:8000/v1", "org/model"),
        ("HTTP://Host", "http://host/v1", ""),
        ("http://[::1]:8000/v1/#m", "http://[::1]:8000/v1", "m"),
    ],
)
def test_names(name: str, base: str, model: str) -> None:
    assert parse(name) == Address(base, model)
    assert resolve(name).kind is SourceKind.REMOTE


@pytest.mark.parametrize(
    ("base", "leaves"),
    [
        ("http://127.0.0.1:8000/v1", False),
        ("http://localhost:8000/v1", False),
        ("http://[::1]/v1", False),
        ("http://192.168.1.2/v1", True),
        ("https://example.org/v1", True),
    ],
)
def test_whether_text_leaves_the_machine(base: str, leaves: bool) -> None:
    assert Address(base).leaves_machine is leaves


def test_what_needs_tokens_or_the_inside_says_where_they_are(choose: Choose) -> None:
    chat = choose()
    run = reply(chat)
    with pytest.raises(NoModel, match="its tokenizer is there too"):
        chat.preview("hello")
    with pytest.raises(NoModel, match="its tokenizer is there too"):
        chat.branch_token(run.message_id, 0, "x")
    with pytest.raises(RefusedInput, match="came from a server"):
        chat.replay(run.id)
    job = chat.engine.score([1, 2, 3])
    assert job.finished.wait(30)
    assert "its tokenizer is there too" in str(job.error)
    draft = chat.engine.load_draft("builtin")
    assert draft.finished.wait(30)
    assert isinstance(draft.error, UnsupportedModel)


def test_the_servers_models_are_listed_and_take_no_memory(server: FakeServer, choose: Choose) -> None:
    server.be_vllm()
    settings = Settings(remote_url=server.base)
    entry = next(entry for entry in list_models(settings) if entry.kind == "remote")
    assert (entry.name, entry.label) == (f"{server.base}#org/small", "small")
    estimate = ModelService(settings).estimate(entry.name)
    assert estimate["fits"]
    assert "no memory here" in estimate["verdict"]
    with pytest.raises(FaderError, match="nothing to prepare"):
        ModelService(settings).prepare(entry.name)


def test_a_configured_server_that_does_not_answer_is_a_line_with_the_reason() -> None:
    entry = next(e for e in list_models(Settings(remote_url="http://127.0.0.1:1/v1")) if e.kind == "remote")
    assert "can't be reached" in entry.detail


def test_another_model_can_take_the_place_and_give_it_back(choose: Choose, server: FakeServer) -> None:
    chat = choose()
    job = chat.engine.load("http://127.0.0.1:1/v1#gone")
    assert job.finished.wait(30)
    assert job.error
    status = chat.engine.status()
    assert (status.state, status.name) == ("ready", server.base)
    assert "still in use" in status.detail
    assert chat.engine.unload().finished.wait(30)
    assert chat.engine.status().state == "none"
