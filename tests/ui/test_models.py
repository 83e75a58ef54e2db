"""The model panel's routes and words over real loads: what differs, what it takes, what became of it, and the copies on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.chat import Chat
from app.engine.engine import Engine
from app.models import budget, choices, prepared
from app.models.opening import open_model
from app.models.options import LoadOptions, Quantization
from app.models.service import ModelService
from app.settings import Settings
from storage import open_store
from tests.models.tiny import tiny_ernie_moe, tiny_llama
from tests.ui.test_controls import in_blocks
from ui.load_choices import LoadChoices
from ui.model_judge import Judge
from ui.server import create_api

DEFAULTS = tuple(choices.as_json(LoadOptions()).values())


@pytest.fixture
def chat(tmp_path: Path, shared_cache: Path) -> Iterator[Chat]:
    (shared_cache / "native").mkdir(exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "native").symlink_to(shared_cache / "native", target_is_directory=True)
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache", read_ahead=False)
    made = Chat(open_store(settings.home), Engine(ModelService(settings), settings), settings)
    yield made
    made.close()


@pytest.fixture
def client(chat: Chat) -> Iterator[TestClient]:
    with TestClient(
        create_api(chat, chat.settings), base_url="http://127.0.0.1:7860", headers={"X-Fader": "1"}
    ) as client:
        yield client


@pytest.fixture
def judge(chat: Chat) -> Judge:
    return Judge(chat, in_blocks(lambda: LoadChoices(chat)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("panel") / "tiny")


def load(chat: Chat, folder: Path | str, options: LoadOptions | None = None) -> None:
    job = chat.engine.load(str(folder), options)
    assert job.finished.wait(120)


def test_the_verdict_says_what_comes_first_and_what_would_change(chat: Chat, judge: Judge, folder: Path) -> None:
    first = judge.verdict(str(folder), *DEFAULTS)
    assert first.startswith("Fits: it needs about")
    assert "Quantizes 1 MB once and keeps a copy" in first
    load(chat, folder)
    assert judge.glance(str(folder), *DEFAULTS).endswith("Reads the copy that was made before (1 MB).")
    other = judge.glance(str(folder), "fp4", *DEFAULTS[1:])
    assert "In memory it is loaded otherwise (Weights: 4-bit (NF4)); the change takes a new 4-bit copy." in other
    eager = judge.glance(str(folder), *DEFAULTS[:3], "eager", *DEFAULTS[4:])
    assert "(Attention: auto); the change takes a new load." in eager
    assert "Downloads someone/else first" in judge.glance("someone/else", *DEFAULTS)


def test_a_load_with_choices_is_told_with_them_and_kept(
    chat: Chat, client: TestClient, judge: Judge, folder: Path
) -> None:
    assert judge.load(str(folder), "none", True, "float32", "eager", "cpu", True) == ""
    chat.engine.load_draft("").finished.wait(120)  # stands in line behind it
    view = client.get("/api/model").json()
    assert (view["state"], view["quantization"]) == ("ready", "none")
    assert ["Computes in", "float32"] in view["measured"]
    assert ["Attention", "eager"] in view["measured"]
    assert ModelService(chat.settings).options(str(folder)) == LoadOptions(
        Quantization("none", compute_dtype="float32"), "eager", "cpu"
    )


def test_what_is_chosen_wrongly_is_said_next_to_the_controls(judge: Judge, folder: Path) -> None:
    told = judge.load(str(folder), "nf4", True, "bfloat16", "auto", "cuda:7", True)
    assert told.startswith("device: PyTorch finds no graphics card here")


def test_the_controls_show_what_was_chosen_for_the_model_that_is_named(chat: Chat, folder: Path) -> None:
    ModelService(chat.settings).choose(str(folder), LoadOptions(Quantization("none"), attention="eager"))
    how = in_blocks(lambda: LoadChoices(chat))
    updates = dict(zip(("scheme", "double_quant"), how.chosen(str(folder)), strict=False))
    assert updates["scheme"]["value"] == "none"
    assert not updates["double_quant"]["interactive"]
    assert "Not in use: the weights are not quantized" in updates["double_quant"]["info"]
    assert [update["value"] for update in how.chosen("no such model")] == list(DEFAULTS)
    offered = {
        row.name: update.get("choices") for row, update in zip(choices.ROWS, how.fitting(*DEFAULTS), strict=True)
    }
    assert ("processor (cpu)", "cpu") in offered["device"]
    assert [update["value"] for update in how.defaults()] == list(DEFAULTS)


def test_a_model_that_takes_the_place_of_another_is_announced(
    chat: Chat, judge: Judge, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(chat, folder)
    report = chat.engine.report
    assert report
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 10**6)
    object.__setattr__(report, "resident_bytes", 10**12)
    assert judge.verdict(str(folder), *DEFAULTS).startswith("Fits once the model in memory is unloaded")


def test_where_memory_holds_one_model_the_next_takes_its_place(
    chat: Chat, client: TestClient, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(chat, folder)
    report = chat.engine.report
    assert report
    object.__setattr__(report, "resident_bytes", 10**12)
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 10**6 if chat.engine.loaded else 10**12)
    load(chat, tiny_llama(tmp_path / "next", seed=1))
    assert client.get("/api/model").json()["label"] == "next"
    object.__setattr__(chat.engine.report, "resident_bytes", 10**12)
    load(chat, missing_shard(tmp_path))
    assert client.get("/api/model").json()["label"] == "next"
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 10**6)
    load(chat, folder)
    gone = client.get("/api/model").json()
    assert (gone["state"], gone["label"]) == ("failed", None)
    assert "Doesn’t fit" in gone["detail"]
    assert gone["detail"].endswith("next was unloaded to make room; it loads again with your next message.")
    monkeypatch.undo()
    assert chat.send("hello", requested={"max_new_tokens": 2}).run.result(60).run.error is None
    assert client.get("/api/model").json()["label"] == "next"


def test_weights_that_are_not_4_bit_are_named_on_the_page(chat: Chat, client: TestClient, tmp_path: Path) -> None:
    load(chat, tiny_ernie_moe(tmp_path / "odd", moe_intermediate_size=72))
    (warning,) = client.get("/api/model").json()["warnings"]
    assert warning.startswith("Asked for 4-bit, but these are not: model.layers.{1–2}.mlp.experts")


def test_copies_are_listed_and_deleted_and_the_one_in_use_is_marked(
    chat: Chat, client: TestClient, folder: Path
) -> None:
    load(chat, folder, LoadOptions(Quantization("fp4")))
    load(chat, folder, LoadOptions())
    told = client.get("/api/copies").json()
    assert told["folder"] == str(prepared.root(chat.settings.cache))
    in_use = {copy["settings"]: copy["in_use"] for copy in told["copies"]}
    assert in_use == {"nf4-double-bfloat16": True, "fp4-double-bfloat16": False}
    for copy in told["copies"]:
        gone: Any = client.post(f"/api/copies/{copy['name']}/remove", json={}).json()
        assert gone["freed"] == copy["nbytes"]
    assert client.get("/api/copies").json()["copies"] == []
    assert client.post("/api/copies/nothing/remove", json={}).status_code == 404
    assert client.post("/api/copies/..%2F..%2Fhome/remove", json={}).status_code == 404
    assert chat.engine.status().state == "ready"
    assert (folder / "model.safetensors").exists()


def missing_shard(folder: Path) -> str:
    made = tiny_llama(folder / "sharded", max_shard_size="100KB")
    min(made.glob("model-*.safetensors")).unlink()
    return str(made)


def truncated(folder: Path) -> str:
    file = tiny_llama(folder / "cut") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    return str(file.parent)


def unknown_architecture(folder: Path) -> str:
    made = tiny_llama(folder / "odd")
    (made / "config.json").write_text('{"model_type": "hovercraft"}')
    return str(made)


def paddle(_folder: Path) -> str:
    return "baidu/ERNIE-4.5-21B-A3B-Paddle"


def nowhere(folder: Path) -> str:
    return str(folder / "nothing")


def offline(_folder: Path) -> str:
    return "someone/some-model"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (missing_shard, "shards missing"),
        (truncated, "bytes instead of"),
        (unknown_architecture, "the architecture hovercraft"),
        (paddle, "Take baidu/ERNIE-4.5-21B-A3B-PT instead"),
        (nowhere, "There is no model at"),
        (offline, "HF_HUB_OFFLINE forbids to fetch it"),
    ],
)
def test_what_can_not_be_loaded_is_said_and_the_previous_model_answers(
    chat: Chat, client: TestClient, folder: Path, tmp_path: Path, make: Callable[[Path], str], words: str
) -> None:
    load(chat, folder)
    load(chat, make(tmp_path))
    view = client.get("/api/model").json()
    assert view["state"] == "ready"
    assert words in view["detail"]
    assert view["detail"].endswith("The previous model is still in use.")
    reply = chat.send("hello", requested={"max_new_tokens": 2}).run.result(60)
    assert reply.run.error is None


def test_a_load_that_is_cancelled_in_the_middle_leaves_the_previous_model_and_no_files(
    chat: Chat, client: TestClient, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(chat, folder)
    before = client.get("/api/copies").json()["copies"]

    def cancelled_on_the_way(*arguments: Any, **named: Any) -> Any:
        assert chat.engine.cancel_load()
        return open_model(*arguments, **named)

    monkeypatch.setattr("app.models.preparation.open_model", cancelled_on_the_way)
    job = chat.engine.load(str(tiny_llama(tmp_path / "next", seed=1)))
    assert job.finished.wait(120)
    assert "cancelled" in str(job.error)
    assert (chat.engine.status().state, chat.engine.status().name) == ("ready", str(folder))
    assert client.get("/api/copies").json()["copies"] == before
    assert not list(prepared.root(chat.settings.cache).glob(".pending-*"))
    assert chat.send("hello", requested={"max_new_tokens": 2}).run.result(60).run.error is None
