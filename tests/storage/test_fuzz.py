"""Mutated files of every format give a report, never a crash and never half a conversation."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversation import Json
from app.transfer import ExportFormat, Outcome
from storage import Store
from tests.storage import foreign, samples

_SHORT, _FULL = 60, 1000

_ODD: st.SearchStrategy[Json] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2**80,
        1e400,
        0.5,
        "",
        "\x00",
        "\ud800",
        "a" * 300,
        [],
        {},
        [[]],
        {"": {}},
        "user",
        "2025-01-01T00:00:00+00:00",
    ]
)


def _places(told: Json, path: tuple[Json, ...] = ()) -> Iterator[tuple[Json, ...]]:
    """Every place in a document."""
    yield path
    entries = told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else ()
    for key, value in entries:
        yield from _places(value, (*path, key))


def _mutate(told: Json, data: st.DataObject) -> Json:
    """A document with a few values replaced, removed, doubled or renamed."""
    told = copy.deepcopy(told)
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from([place for place in _places(told) if place] or [()]))
        if not path:
            return copy.deepcopy(data.draw(_ODD))
        parent = told
        for key in path[:-1]:
            parent = parent[key]
        match data.draw(st.sampled_from(["replace", "remove", "double", "rename"])):
            case "replace":
                parent[path[-1]] = copy.deepcopy(data.draw(_ODD))  # later mutations change it
            case "remove":
                del parent[path[-1]]
            case "double" if isinstance(parent, list):
                parent.append(parent[path[-1]])
            case "rename" if isinstance(parent, dict):
                parent[data.draw(st.text(max_size=5))] = parent.pop(path[-1])
    return told


def _fader() -> Json:
    """A Fader JSON document; made by a store of its own, so that nothing of it is here yet."""
    import tempfile

    from storage import open_store

    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        talk = samples.conversation(store, "Tea")
        _, reply = samples.exchange(store, talk.id, None, "How long?", "Two minutes.")
        store.trash_message(reply.id, subtree=True)
        document = json.loads("".join(store.export(ExportFormat.FADER_JSON)))
        store.close()
    return document


FILES = {**foreign.FILES, "Fader JSON": _fader()}


def _check(store: Store, file: Path, data: bytes) -> None:
    """The report and what is in the store agree, to the message."""
    before = {hit.conversation.id for hit in _all(store)}
    file.write_bytes(data)
    report = store.import_file(file)
    imported = {item.conversation_id: item.messages for item in report.items if item.outcome is Outcome.IMPORTED}
    after = {hit.conversation.id for hit in _all(store)}
    assert after - before == set(imported)
    for id_, messages in imported.items():
        assert id_ is not None
        assert len(store.messages(id_)) == messages
        store.branch(id_)
    assert all(item.reason for item in report.items if item.outcome is not Outcome.IMPORTED)
    json.dumps(report.as_json())
    "".join(store.export(ExportFormat.FADER_JSON, list(imported)))  # type: ignore[arg-type]
    store.trash(list(imported))  # type: ignore[arg-type]
    store.purge(list(imported))  # type: ignore[arg-type]


def _all(store: Store) -> list[Json]:
    return [*store.conversations(limit=1000).hits, *store.conversations(trashed=True, limit=1000).hits]


def _fuzz_values(store: Store, tmp_path: Path, name: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _check(store, tmp_path / "fuzzed.json", json.dumps(_mutate(FILES[name], data)).encode())

    check()


def _fuzz_bytes(store: Store, tmp_path: Path, name: str, examples: int) -> None:
    sound = json.dumps(FILES[name]).encode()

    @settings(max_examples=examples)
    @given(st.integers(0, len(sound)), st.integers(0, 40), st.binary(max_size=10))
    def check(start: int, length: int, instead: bytes) -> None:
        _check(store, tmp_path / "fuzzed.json", sound[:start] + instead + sound[start + length :])

    check()


@pytest.mark.parametrize("name", FILES)
def test_changed_values(store: Store, tmp_path: Path, name: str) -> None:
    _fuzz_values(store, tmp_path, name, _SHORT)


@pytest.mark.parametrize("name", FILES)
def test_changed_bytes(store: Store, tmp_path: Path, name: str) -> None:
    _fuzz_bytes(store, tmp_path, name, _SHORT)


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_many_changes(store: Store, tmp_path: Path, name: str) -> None:
    _fuzz_values(store, tmp_path, name, _FULL)
    _fuzz_bytes(store, tmp_path, name, _FULL)
