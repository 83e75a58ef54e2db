"""The comparison's routes over tiny real models: what is computed side by side, what in turn, and what the page is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.chat import Chat
from app.conversation import Json, Run
from app.engine.batch.alone import AloneCheck
from app.engine.engine import Engine
from app.errors import ModelError
from app.models.loading import LoadedModel
from app.models.service import ModelService
from app.settings import Settings
from storage import open_store
from tests.models.tiny import tiny_llama
from ui.server import create_api

SAMPLED = {"temperature": 1.0, "top_k": 5, "top_p": 1.0, "seed": 3, "max_new_tokens": 12}
Replied = Callable[..., Run]


class Shelf:
    """``Models`` with three of them by name; ``loads`` are the names asked for, and each waits for ``gate``."""

    def __init__(self, **models: LoadedModel) -> None:
        self.models = models
        self.loads: list[str] = []
        self.gate = Event()
        self.gate.set()

    def load(
        self, name: str, *, progress: Callable[[str, int, int], None], cancelled: Event, options: Any = None
    ) -> LoadedModel:
        del options
        self.loads.append(name)
        progress("Reading", 1, 2)
        assert self.gate.wait(60)
        if name not in self.models:
            raise ModelError(f"{name} has no config.json")
        return self.models[name]

    def unload(self, loaded: LoadedModel) -> None:
        del loaded


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Shelf:
    folder = tmp_path_factory.mktemp("compared")
    service = ModelService(Settings(cache=shared_cache))
    models = {name: service.load(str(tiny_llama(folder / name, seed=seed))) for seed, name in enumerate(("one", "two"))}
    for name, loaded in models.items():
        loaded.facts = _renamed(loaded, name)
    return Shelf(**models)


def _renamed(loaded: LoadedModel, name: str) -> Any:
    from dataclasses import replace

    return replace(loaded.facts, name=name, fingerprint={**loaded.facts.fingerprint, "name": name})


@pytest.fixture
def chat(fader_home: Path, shelf: Shelf) -> Iterator[Chat]:
    settings = Settings(home=fader_home, prefill_chunk=16, fast_step=False)
    made = Chat(open_store(fader_home), Engine(shelf, settings), settings)
    assert made.engine.load("one").finished.wait(60)
    shelf.loads.clear()
    yield made
    shelf.gate.set()
    made.close()


@pytest.fixture
def client(chat: Chat) -> Iterator[TestClient]:
    app = create_api(chat, chat.settings)
    with TestClient(app, base_url="http://127.0.0.1:7860", headers={"X-Fader": "1"}) as client:
        yield client


@pytest.fixture
def replied(chat: Chat) -> Replied:
    def send(**requested: Any) -> Run:
        started = chat.send("hello there", requested=SAMPLED | requested)
        started.run.result(60)
        chat.wait_until_kept(started.run.id)
        return chat.store.run(started.run.id)

    return send


def compare(client: TestClient, run: Run, **sweeps: list[Json]) -> list[dict[str, Any]]:
    answer = client.post(f"/api/messages/{run.message_id}/compare", json={"sweeps": sweeps})
    assert answer.status_code == 200, answer.text
    cells: list[dict[str, Any]] = answer.json()["cells"]
    return cells


def follow(client: TestClient, cells: list[dict[str, Any]], check: str | None = None) -> list[dict[str, Any]]:
    body = {"cells": [{"run": cell["run"], "after": cell.get("seq", 0)} for cell in cells], "check": check}
    told: list[dict[str, Any]] = client.post("/api/compare/follow", json=body).json()
    return told


def finished(client: TestClient, chat: Chat, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for cell in cells:
        live = chat.live(cell["run"])
        assert live is not None
        live.result(60)
        chat.wait_until_kept(cell["run"])
    return follow(client, cells)


def test_a_grid_is_one_batch_of_siblings_and_every_cell_replays(
    client: TestClient, chat: Chat, replied: Replied
) -> None:
    run = replied()
    cells = compare(client, run, temperature=[0, 0.5, 1.0, 2.0], top_k=[5, 50])
    assert [cell["apart"] for cell in cells] == [None] * 8
    told = finished(client, chat, cells)
    assert all(answer["done"] and answer["together"] for answer in told)
    as_recorded = next(i for i, cell in enumerate(cells) if cell["changes"] == {"temperature": 1.0, "top_k": 5})
    assert told[as_recorded]["ids"] == list(run.output_ids)
    greedy = [answer["ids"] for cell, answer in zip(cells, told, strict=True) if cell["changes"]["temperature"] == 0]
    assert greedy[0] == greedy[1]
    conversation = chat.store.message(run.message_id).conversation_id
    shown = chat.store.branch(conversation)[-1]
    assert shown.message.id == run.message_id
    assert shown.siblings == (run.message_id, *(cell["message"] for cell in cells))
    for cell in cells:
        stored = chat.store.run(cell["run"])
        assert stored.seed == 3
        assert stored.prompt_ids == run.prompt_ids
        assert chat.store.trace(cell["run"])
        assert chat.check_replay(cell["run"], chat.replay(cell["run"]), 60).identical


def test_settings_that_can_not_be_side_by_side_are_computed_in_turn_and_say_why(
    client: TestClient, chat: Chat, replied: Replied
) -> None:
    cells = compare(client, replied(), num_beams=[1, 2], temperature=[0, 1.0])
    reasons = [cell["apart"] for cell in cells]
    assert reasons[:2] == [None, None]
    assert all("beam search" in reason for reason in reasons[2:])
    told = finished(client, chat, cells)
    assert [answer["together"] for answer in told] == [True, True, False, False]
    assert [answer["error"] for answer in told] == [None] * 4


def test_new_text_comes_once_and_the_whole_at_the_end(client: TestClient, chat: Chat, replied: Replied) -> None:
    cells = compare(client, replied(max_new_tokens=200, min_new_tokens=200), seed=[1, 2])
    texts = ["", ""]
    while True:
        told = follow(client, cells)
        for i, answer in enumerate(told):
            cells[i]["seq"] = answer["seq"]
            texts[i] = answer["text"] if answer["done"] else texts[i] + answer["text"]
        if all(answer["done"] for answer in told):
            break
        for cell in cells:
            live = chat.live(cell["run"])
            assert live is not None
            live.wait(cell["seq"], 60)
    finished(client, chat, cells)
    assert texts == [chat.store.message(cell["message"]).content for cell in cells]


def test_presets_are_compared_with_the_replys_own_length_and_draws(
    client: TestClient, chat: Chat, replied: Replied
) -> None:
    chat.store.save_preset("Mine", {"temperature": 1.7, "max_new_tokens": 400})
    run = replied(stop_strings=["zzz"])
    cells = compare(client, run, preset=["Deterministic", "Balanced", "Mine"], repetition_penalty=[1.0, 1.3])
    finished(client, chat, cells)
    stored = [chat.store.run(cell["run"]) for cell in cells]
    assert [s.effective["do_sample"] for s in stored] == [False, False, True, True, True, True]
    assert [s.effective["temperature"] for s in stored[2:]] == [0.7, 0.7, 1.7, 1.7]
    assert [s.effective["repetition_penalty"] for s in stored] == [1.0, 1.3] * 3
    assert {s.effective["max_new_tokens"] for s in stored} == {12}
    assert {s.seed for s in stored} == {3}
    assert stored[2].effective["stop_strings"] == ["zzz"]
    assert stored[2].explained["temperature"]["source"] == "preset"
    assert stored[2].effective["top_k"] == 50, "the reply's own top_k of 5 is not part of the preset"


def test_models_are_loaded_in_turn_and_the_present_one_comes_back(
    client: TestClient, chat: Chat, replied: Replied, shelf: Shelf
) -> None:
    run = replied()
    shelf.gate.clear()
    cells = compare(client, run, model=["two", "one"], seed=[3, 4])
    one = finished(client, chat, cells[2:])
    waiting = follow(client, cells[:2])
    while waiting[0]["status"] == "queued":
        waiting = follow(client, cells[:2])
    assert [answer["status"] for answer in waiting] == ["loading", "loading"]
    assert "two" in waiting[0]["detail"]
    shelf.gate.set()
    two = finished(client, chat, cells[:2])
    assert all(answer["together"] for answer in one + two)
    assert one[0]["ids"] == list(run.output_ids)
    assert two[0]["ids"] != one[0]["ids"]
    stored = chat.store.run(cells[0]["run"])
    assert stored.model_fingerprint["name"] == "two"
    assert stored.prompt_ids == run.prompt_ids, "the same message through the same template"
    chat.engine.load_draft("none").finished.wait(60)  # behind everything that was queued
    assert chat.engine.status().name == "one"
    assert shelf.loads[:2] == ["two", "one"]


def test_a_model_that_can_not_be_loaded_fails_its_cells_alone(
    client: TestClient, chat: Chat, replied: Replied, shelf: Shelf
) -> None:
    cells = compare(client, replied(), model=["one", "nowhere"])
    told = finished(client, chat, cells)
    assert told[0]["error"] is None
    assert "nowhere has no config.json" in told[1]["error"]
    assert chat.engine.status().name == "one"
    assert shelf.loads.count("one") == 0


def test_cells_that_were_stopped_while_they_waited_load_nothing(
    client: TestClient, chat: Chat, replied: Replied, shelf: Shelf
) -> None:
    run = replied()
    shelf.gate.clear()
    load = chat.engine.load("two")
    cells = compare(client, run, model=["one", "two"], seed=[1, 2])
    for cell in cells:
        assert client.post(f"/api/runs/{cell['run']}/stop").json()["stopped"]
    told = finished(client, chat, cells)
    assert {answer["finish_reason"] for answer in told} == {"stopped"}
    shelf.gate.set()
    assert load.finished.wait(60)


def test_cells_are_checked_against_single_runs(
    client: TestClient, chat: Chat, replied: Replied, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, jobs, start = replied(), [], chat.check_alone

    def noted(runs: list[str]) -> AloneCheck:
        jobs.append(start(runs))
        return jobs[-1]

    monkeypatch.setattr(chat, "check_alone", noted)
    cells = compare(client, run, temperature=[0.5, 1.0])
    assert [answer["alone"] for answer in finished(client, chat, cells)] == [None, None]
    check = client.post("/api/compare/check", json={"runs": [cell["run"] for cell in cells]}).json()["check"]
    assert jobs[0].finished.wait(60)
    for answer in follow(client, cells, check):
        assert answer["alone"]["state"] in ("same", "parts")
        assert 0.9 < answer["alone"]["share"] <= 1
    assert client.post(f"/api/compare/check/{check}/stop").json()["stopped"]
    assert not client.post("/api/compare/check/unknown/stop").json()["stopped"]


def test_with_the_fast_step_cells_are_exactly_what_single_runs_give(shelf: Shelf, fader_home: Path) -> None:
    settings = Settings(home=fader_home, prefill_chunk=16)
    chat = Chat(open_store(fader_home), Engine(shelf, settings), settings)
    assert chat.engine.load("one").finished.wait(60)
    started = chat.send("hello there", requested=SAMPLED)
    run = started.run.result(60).run
    chat.wait_until_kept(run.id)
    with TestClient(create_api(chat, settings), base_url="http://127.0.0.1:7860", headers={"X-Fader": "1"}) as client:
        cells = compare(client, run, temperature=[0, 1.0, 2.0], num_beams=[1, 2])
        told = finished(client, chat, cells)
    assert [answer["alone"] for answer in told] == [{"state": "exact"}] * 6
    assert [bool(cell["apart"]) for cell in cells] == [False, True] * 3
    assert told[2]["ids"] == list(run.output_ids)
    assert chat.check_replay(cells[4]["run"], chat.replay(cells[4]["run"]), 60).identical
    chat.close()


def test_where_a_cell_parts_from_a_single_run_is_noted_with_it(chat: Chat, replied: Replied) -> None:
    from app.engine.batch.claims import Alone

    run = replied()
    chat._keep_alone(run.id, Alone(12, 12))
    assert chat.store.run(run.id).notes == run.notes
    text = chat.store.message(run.message_id).content
    chat._keep_alone(run.id, Alone(12, 11, 4, 7))
    noted = chat.store.run(run.id)
    assert "at token 5; of all tokens 91.7% are the same" in noted.notes[-1]
    assert chat.store.message(run.message_id).content == text
    assert chat.store.trace(run.id) is not None
    chat._keep_alone("gone", Alone(12, 11, 4, 7))


def test_the_models_to_choose_from_begin_with_the_loaded_one(client: TestClient) -> None:
    told = client.get("/api/compare/models").json()
    assert told["loaded"] == "one"
    assert told["models"][0]["name"] == "one"
    assert "builtin" in [model["name"] for model in told["models"]]


@pytest.mark.parametrize(
    ("sweeps", "status", "words"),
    [
        ({}, 400, "at least one"),
        ({"temperature": []}, 400, "at least one"),
        ({"temperature": [0.1] * 5, "top_k": [1, 2, 3, 4]}, 400, "20 combinations"),
        ({"temperature": [0.5, "warm"]}, 400, "temperature"),
        ({"preset": ["Unheard of"]}, 404, "no preset “Unheard of”"),
        ({"model": [""]}, 400, "named by a text"),
    ],
)
def test_a_grid_that_can_not_be_run_starts_nothing(
    client: TestClient, chat: Chat, replied: Replied, sweeps: dict[str, Any], status: int, words: str
) -> None:
    run = replied()
    refused = client.post(f"/api/messages/{run.message_id}/compare", json={"sweeps": sweeps})
    assert refused.status_code == status
    assert words in refused.json()["error"]
    assert chat.engine.queue() == ()
    assert len(chat.store.branch(chat.store.message(run.message_id).conversation_id)[-1].siblings) == 1


def test_a_reply_of_another_model_is_compared_only_where_models_are_varied(
    client: TestClient, chat: Chat, replied: Replied
) -> None:
    run = replied()
    assert chat.engine.load("two").finished.wait(60)
    refused = client.post(f"/api/messages/{run.message_id}/compare", json={"sweeps": {"seed": [1]}})
    assert "Load one" in refused.json()["error"]
    told = finished(client, chat, compare(client, run, model=["one"]))
    assert told[0]["ids"] == list(run.output_ids)
