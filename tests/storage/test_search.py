"""Search as one types: prefixes, scripts without blanks, punctuation, filters, and an index that stays true."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.conversation import Conversation, FinishReason, Message, Role, RunStatus, new_id
from app.settings import DATABASE_NAME
from storage import Store, index, open_store
from tests.storage import samples


@pytest.fixture
def filled(store: Store) -> Store:
    """Three conversations of different content."""
    tea = samples.conversation(store, "Tea in Über-Linz")
    samples.exchange(
        store,
        tea.id,
        None,
        "How long does green tea brew? Use C++ and foo.bar_baz!",
        "Two minutes — 東京都庁では煎茶。",
    )
    code = samples.conversation(store, "Code")
    samples.exchange(
        store,
        code.id,
        None,
        "Write a loop",
        "```python\nfor x in y: pass\n```",
        {"effective": {"temperature": 1.5, "do_sample": True}},
    )
    broken = samples.conversation(store, "Broken")
    samples.exchange(
        store,
        broken.id,
        None,
        "한국어 질문입니다 🙂",
        "",
        {
            "status": RunStatus.FAILED,
            "finish_reason": FinishReason.ERROR,
            "error": "out of memory",
            "model_fingerprint": {"name": "baidu/ERNIE-4.5-21B"},
        },
    )
    return store


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("brew", ["Tea in Über-Linz"]),
        ("bre", ["Tea in Über-Linz"]),
        ("GREEN bre", ["Tea in Über-Linz"]),
        ("uber", ["Tea in Über-Linz"]),
        ("ÜBER", ["Tea in Über-Linz"]),
        ("ｔｅａ", ["Tea in Über-Linz"]),
        ("rew", []),
        ("green coffee", []),
        ("loop", ["Code"]),
        ("foo.bar", ["Tea in Über-Linz"]),
        ("c++", ["Code", "Tea in Über-Linz"]),
        ("東", ["Tea in Über-Linz"]),
        ("東京", ["Tea in Über-Linz"]),
        ("京都", ["Tea in Über-Linz"]),
        ("東京都庁", ["Tea in Über-Linz"]),
        ("東都", []),
        ("京東都", []),
        ("煎茶 tea", []),
        ("tea 茶", []),
        ("minutes 煎茶", ["Tea in Über-Linz"]),
        ("한", ["Broken"]),
        ("질문입", ["Broken"]),
        ("🙂", ["Broken"]),
        ("has:error", ["Broken"]),
        ("HAS:ERROR", ["Broken"]),
        ("has:code", ["Code"]),
        ("has:code loop", []),
        ("has:code pass", ["Code"]),
        ("code has:code", ["Code"]),
        ("code has:error", []),
        ("has:nonsense", []),
        ("model:ernie", ["Broken"]),
        ("model:baidu/ERNIE", ["Broken"]),
        ("model:tiny", ["Code", "Tea in Über-Linz"]),
        ("model:", []),
        ("role:user loop", ["Code"]),
        ("role:assistant loop", []),
        ("param:temperature>1", ["Code"]),
        ("param:temperature>=0.5", ["Code", "Broken", "Tea in Über-Linz"]),
        ("param:temperature<1 minutes", ["Tea in Über-Linz"]),
        ("param:temperature<1 pass", []),
        ("param:do_sample=true", ["Code"]),
        ("param:top_k=0", ["Broken", "Tea in Über-Linz"]),
        ("param:temperature>hot", []),
        ("param:unknown>1", []),
        ("after:2020-01-01", ["Broken", "Code", "Tea in Über-Linz"]),
        ("before:2020 loop", []),
        ("after:2020-13-45", []),
        ("—", ["Tea in Über-Linz"]),
        ("???", []),
    ],
)
def test_what_a_query_finds(filled: Store, query: str, found: list[str]) -> None:
    assert sorted(samples.titles(filled, query)) == sorted(found)


def test_anything_typed_is_just_text(filled: Store) -> None:
    @settings(max_examples=300)
    @given(st.text(max_size=40))
    @example('"')
    @example("* OR NEAR(a b) AND {text}: ^x -y")
    @example("param:a>" + "[" * 50_000)
    @example("param:a=" + "9" * 5000)
    @example("after:9999-12-31 before:0001-01-01 x")
    @example("text : \x00 \ud800 'x")
    def check(typed: str) -> None:
        assert len(filled.conversations(typed).hits) <= 3
        assert filled.conversations(typed, trashed=True).hits == ()

    check()


def test_a_message_finds_itself_whatever_is_in_it(store: Store) -> None:
    talk = samples.conversation(store)

    @settings(max_examples=60)
    @given(st.text(st.characters(categories=["L", "N", "Po", "Zs"]), min_size=1, max_size=12))
    def check(text: str) -> None:
        asked, _ = samples.exchange(store, talk.id, None, text, "")
        if any(char.isalnum() for char in text) and not text.lower().startswith(("has:", "after:")):
            assert samples.titles(store, text) == ["A talk"]
        store.trash_message(asked.id, subtree=True)

    check()


def test_dates_are_where_the_user_is_and_have_a_day_as_their_smallest_part(store: Store) -> None:
    for title, at in (("old", datetime(2024, 5, 1)), ("new", datetime(2025, 5, 1))):  # noqa: DTZ001 (local on purpose)
        moment = at.astimezone(UTC)
        talk = Conversation(title=title, created_at=moment, updated_at=moment)
        message = Message(new_id(), talk.id, None, Role.USER, "hello", created_at=moment)
        store.add_conversation(talk, [message])
    assert samples.titles(store, "hello after:2025-05-01") == ["new"]
    assert samples.titles(store, "hello after:2025-05-02") == []
    assert samples.titles(store, "hello before:2025-05-01") == ["old"]
    assert samples.titles(store, "hello after:2024-05 before:2025") == ["old"]
    assert samples.titles(store, "after:2025") == ["new"]
    assert samples.titles(store, "before:2025") == ["old"]
    assert samples.titles(store, "new after:2026") == []


def test_titles_come_first_then_messages_and_each_conversation_once(store: Store) -> None:
    said = samples.conversation(store, "one")
    samples.exchange(store, said.id, None, "apple", "apple apple")
    samples.conversation(store, "apple pie")
    both = samples.conversation(store, "apple tart")
    samples.exchange(store, both.id, None, "apple", "apple")
    assert samples.titles(store, "apple") == ["apple tart", "apple pie", "one"]
    first = store.conversations("apple", limit=2)
    assert first.more
    second = store.conversations("apple", offset=2, limit=2)
    assert ([hit.conversation.title for hit in second.hits], second.more) == (["one"], False)


def test_a_hit_says_where_and_shows_it(store: Store) -> None:
    talk = samples.conversation(store, "Letters")
    long = "word " * 200 + "the  café\nis \x02open\x03 today " + "word " * 200
    asked, _ = samples.exchange(store, talk.id, None, long, "Nothing.")
    (hit,) = store.conversations("cafe open").hits
    assert hit.message_id == asked.id
    assert hit.snippet is not None
    assert "the \x02café\x03 is \x02open\x03 today" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 200
    (by_title,) = store.conversations("letters").hits
    assert (by_title.message_id, by_title.snippet) == (None, None)


def test_snippets_of_scripts_without_blanks_are_marked(store: Store) -> None:
    talk = samples.conversation(store)
    samples.exchange(store, talk.id, None, "昨日は東京都庁に行きました", "")
    assert store.conversations("東京都").hits[0].snippet == "昨日は\x02東京都\x03庁に行きました"


def test_the_index_follows_titles_deletions_and_the_trash(store: Store) -> None:
    talk = samples.conversation(store, "Elephants")
    asked, _ = samples.exchange(store, talk.id, None, "zebra", "giraffe")
    store.update_conversation(talk.id, title="Mammoths")
    assert samples.titles(store, "elephants") == []
    assert samples.titles(store, "mammoths") == ["Mammoths"]
    store.trash_message(asked.id, subtree=False)
    assert samples.titles(store, "zebra") == []
    assert samples.titles(store, "giraffe") == ["Mammoths"]
    store.restore_message(asked.id)
    assert samples.titles(store, "zebra") == ["Mammoths"]
    store.trash([talk.id])
    assert samples.titles(store, "zebra") == []
    assert samples.titles(store, "zebra", trashed=True) == ["Mammoths"]


def test_a_reply_is_found_once_it_has_ended(store: Store) -> None:
    talk = samples.conversation(store)
    _, _, run = samples.begin(store, talk.id, None, "question")
    store.flush_run(run.id, "partial", "generating")
    assert samples.titles(store, "partial") == []
    assert samples.titles(store, "question") == ["A talk"]
    store.finish_run(samples.ended(run), "complete")
    assert samples.titles(store, "complete") == ["A talk"]
    assert samples.titles(store, "partial") == []


def test_many_distinct_parameters_are_still_filtered(store: Store) -> None:
    talk = samples.conversation(store)
    asked, _ = samples.exchange(store, talk.id, None, "start", "x")
    for n in range(600):
        _, _, run = samples.begin(store, talk.id, asked.id, None)
        store.finish_run(samples.ended(run, effective={"top_k": n}), f"answer{n:03}")
    assert samples.titles(store, "param:top_k>20 answer599") == ["A talk"]
    assert samples.titles(store, "param:top_k>20 answer010") == []
    assert samples.titles(store, "param:top_k>=598 answer598") == ["A talk"]
    assert samples.titles(store, "param:top_k>=598 talk") == ["A talk"]


@settings(max_examples=15)
@given(st.data())
def test_whatever_happens_the_index_equals_one_made_anew(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened = open_store(Path(folder))
        try:
            _use_at_random(opened, data)
        finally:
            opened.close()
        with closing(sqlite3.connect(Path(folder) / DATABASE_NAME)) as db:
            db.row_factory = sqlite3.Row
            kept = _vocabulary(db)
            index.rebuild(db)
            assert kept == _vocabulary(db)
            db.execute("INSERT INTO message_search (message_search) VALUES ('integrity-check')")


def _use_at_random(opened: Store, data: st.DataObject) -> None:
    talks = [samples.conversation(opened, f"title {n}").id for n in range(3)]
    ids: dict[str, list[str]] = {talk: [] for talk in talks}
    words = st.text(st.sampled_from("ab 東京é"), max_size=8)
    for _ in range(data.draw(st.integers(1, 12))):
        talk = data.draw(st.sampled_from(talks))
        match data.draw(st.sampled_from(["say", "rename", "delete", "undo", "trash", "purge"])):
            case "say" if opened.place_of(talk):
                asked, reply = samples.exchange(opened, talk, None, data.draw(words), data.draw(words))
                ids[talk] += [asked.id, reply.id]
            case "rename" if opened.place_of(talk):
                opened.update_conversation(talk, title=data.draw(words))
            case "delete" if opened.place_of(talk) and ids[talk]:
                opened.trash_message(data.draw(st.sampled_from(ids[talk])), subtree=data.draw(st.booleans()))
            case "undo" if opened.place_of(talk) and ids[talk]:
                opened.restore_message(data.draw(st.sampled_from(ids[talk])))
            case "trash":
                opened.trash([talk])
            case "purge":
                opened.purge([talk])


def _vocabulary(db: sqlite3.Connection) -> list[tuple[str | int, ...]]:
    """Every term of the index with its place."""
    found: list[tuple[str | int, ...]] = []
    for table in ("message_search", "title_search"):
        db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.v_{table} USING fts5vocab(main, {table}, instance)")
        found += [
            (table, *row) for row in db.execute(f"SELECT term, doc, col, offset FROM v_{table} ORDER BY 1, 2, 3, 4")
        ]
    return found
