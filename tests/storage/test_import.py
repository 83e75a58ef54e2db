"""Import: every format is recognised and read whole, nothing is replaced, twice adds nothing, and the report tells all."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.conversation import Json, Role
from app.errors import NotFound, StoreFull
from app.transfer import ExportFormat, ImportReport, Outcome
from storage import Store
from tests.storage import foreign, samples


def _import(store: Store, tmp_path: Path, told: Json, name: str = "file.json") -> ImportReport:
    file = tmp_path / name
    file.write_text(told if isinstance(told, str) else json.dumps(told), encoding="utf-8")
    return store.import_file(file)


@pytest.mark.parametrize("name", foreign.FILES)
def test_each_format_is_recognised_and_shows_its_conversation(store: Store, tmp_path: Path, name: str) -> None:
    report = _import(store, tmp_path, foreign.FILES[name])
    assert report.format == name
    (item,) = report.items
    assert item.outcome is Outcome.IMPORTED, item.reason
    assert item.conversation_id is not None
    texts = samples.texts(store, item.conversation_id)
    assert texts[-2:] == (["How long?", "Two minutes."])
    assert samples.titles(store, "minutes") == [store.conversation(item.conversation_id).title]
    assert len(store.messages(item.conversation_id)) == item.messages


@pytest.mark.parametrize("name", foreign.FILES)
def test_importing_twice_adds_nothing(store: Store, tmp_path: Path, name: str) -> None:
    _import(store, tmp_path, foreign.FILES[name])
    before = "".join(store.export(ExportFormat.FADER_JSON)).split("\n", 1)[1]
    report = _import(store, tmp_path, foreign.FILES[name])
    assert (report.count(Outcome.SKIPPED), report.count(Outcome.IMPORTED)) == (1, 0)
    assert "already here" in report.items[0].reason
    assert "".join(store.export(ExportFormat.FADER_JSON)).split("\n", 1)[1] == before


def test_chatgpt_keeps_branches_times_and_models_and_says_what_it_leaves_out(store: Store, tmp_path: Path) -> None:
    (item,) = _import(store, tmp_path, foreign.CHATGPT).items
    assert item.conversation_id is not None
    talk = store.conversation(item.conversation_id)
    assert talk.title == "Tea"
    assert talk.created_at == datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)
    question, answer = (one.message for one in store.branch(talk.id))
    assert question.created_at == datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)
    assert answer.run is not None
    assert answer.run.model_fingerprint["name"] == "gpt-4o"
    assert len(store.branch(talk.id)[1].siblings) == 2
    assert "```python\nprint(1)\n```" in [message.content for message in store.messages(talk.id)]
    assert item.reason == "left out: 1 images and files, 1 tool messages"
    assert [hit.message_id for hit in store.conversations("model:gpt").hits] == [answer.id]


def test_chatgpt_archives_are_read(store: Store, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", json.dumps(foreign.CHATGPT))
    assert store.import_file(tmp_path / "export.zip").count(Outcome.IMPORTED) == 1
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("user.json", "{}")
    assert store.import_file(tmp_path / "empty.zip").count(Outcome.FAILED) == 1


def test_open_webui_keeps_pins_the_system_prompt_and_all_replies(store: Store, tmp_path: Path) -> None:
    (item,) = _import(store, tmp_path, foreign.OPEN_WEBUI).items
    assert item.conversation_id is not None
    talk = store.conversation(item.conversation_id)
    assert (talk.pinned, talk.system_prompt) == (True, "Be short.")
    assert {message.content for message in store.messages(talk.id)} == {"How long?", "Two minutes.", "Three."}


def test_older_llama_cpp_exports_are_read(store: Store, tmp_path: Path) -> None:
    (item,) = _import(store, tmp_path, foreign.LLAMA_CPP_OLD).items
    assert item.conversation_id is not None
    first, second = store.messages(item.conversation_id)
    assert (first.role, second.role, second.parent_id) == (Role.USER, Role.ASSISTANT, first.id)
    assert first.created_at == datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)


def test_text_generation_webui_greets_first(store: Store, tmp_path: Path) -> None:
    (item,) = _import(store, tmp_path, foreign.TEXT_GENERATION_WEBUI).items
    assert item.conversation_id is not None
    assert samples.texts(store, item.conversation_id) == ["Hello!", "How long?", "Two minutes."]
    assert _import(store, tmp_path, {"data": [["How?", "So."]]}).count(Outcome.IMPORTED) == 1


def test_json_lines_of_sharegpt_and_openai(store: Store, tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(told) for told in (foreign.SHAREGPT[0], foreign.OPENAI)) + "\nnot json\n"
    report = _import(store, tmp_path, lines, "data.jsonl")
    assert [item.outcome for item in report.items] == [Outcome.IMPORTED, Outcome.IMPORTED, Outcome.FAILED]
    assert "line 3" in report.items[2].reason
    assert str(report) == "ShareGPT, OpenAI messages, unreadable: 2 imported, 0 skipped, 1 failed."


def test_one_bad_conversation_does_not_cost_the_others(store: Store, tmp_path: Path) -> None:
    bad = json.loads(json.dumps(foreign.OPEN_WEBUI[0]))
    bad["chat"]["history"]["messages"]["m2"]["content"] = 5
    circle = json.loads(json.dumps(foreign.OPEN_WEBUI[0]))
    circle["chat"]["history"]["messages"]["m1"]["parentId"] = "m2"
    report = _import(store, tmp_path, [bad, circle, *foreign.OPEN_WEBUI, {"chat": {"messages": []}}, 7])
    assert [item.outcome.value for item in report.items] == ["failed", "failed", "imported", "failed", "failed"]
    assert "content is a whole number instead of text" in report.items[0].reason
    assert report.items[0].title == "Tea"
    assert "circle" in report.items[1].reason
    assert "no messages" in report.items[3].reason
    assert "none of the formats" in report.items[4].reason
    assert len(store.conversations().hits) == 1


@pytest.mark.parametrize(
    "text", ["", "hello", "[" * 100_000, '{"a": 1', "9" * 5000, "\ufeff[]x", '"text"', "{}", "null"]
)
def test_what_is_no_export_fails_with_a_reason(store: Store, tmp_path: Path, text: str) -> None:
    report = _import(store, tmp_path, text)
    assert report.count(Outcome.FAILED) == len(report.items) == 1
    assert report.items[0].reason


def test_a_missing_file_is_not_found(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        store.import_file(tmp_path / "missing.json")


def test_a_conversation_in_the_trash_is_not_brought_in_beside_itself(store: Store, tmp_path: Path) -> None:
    (item,) = _import(store, tmp_path, foreign.OPENAI).items
    assert item.conversation_id is not None
    store.trash([item.conversation_id])
    (again,) = _import(store, tmp_path, foreign.OPENAI).items
    assert again.reason == "it is already in the trash"
    store.purge([item.conversation_id])
    (anew,) = _import(store, tmp_path, foreign.OPENAI).items
    assert anew.outcome is Outcome.IMPORTED


def test_import_does_not_change_what_went_on_since(store: Store, tmp_path: Path) -> None:
    (item,) = _import(store, tmp_path, foreign.OPENAI).items
    assert item.conversation_id is not None
    store.update_conversation(item.conversation_id, title="My name for it")
    samples.exchange(store, item.conversation_id, None, "More", "And more")
    _import(store, tmp_path, foreign.OPENAI)
    assert samples.titles(store) == ["My name for it"]
    assert samples.texts(store, item.conversation_id) == ["More", "And more"]


def test_a_full_disk_ends_an_import_with_a_reason_for_each(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talks = [{"conversations": [{"from": "human", "value": f"{n} " + "word " * 2000}]} for n in range(10)]
    add, calls = store.add, []

    def fill(whole: Json) -> None:
        calls.append(whole)
        if len(calls) > 4:
            raise StoreFull("No space is left.")
        add(whole)

    monkeypatch.setattr(store, "add", fill)
    report = _import(store, tmp_path, talks)
    assert (report.count(Outcome.IMPORTED), report.count(Outcome.FAILED)) == (4, 6)
    assert len(calls) == 5
    assert report.items[4].reason == "No space is left."
    assert report.items[9].reason == "not tried: No space is left."
    assert report.as_json()["failed"] == 6


def test_times_that_make_no_sense_are_left_out(store: Store, tmp_path: Path) -> None:
    senseless: list[Json] = [-1, 1e300, float("nan"), "yesterday", True, [], 10**30]
    for time in senseless:
        told = json.loads(json.dumps(foreign.CHATGPT))
        told[0]["create_time"] = told[0]["update_time"] = time
        told[0]["title"] = str(time)
        (item,) = _import(store, tmp_path, told).items
        assert item.outcome is Outcome.IMPORTED, item.reason
