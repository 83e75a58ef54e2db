"""Damaged files: set aside, what can be read recovered, and said so; nothing is overwritten."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from app.errors import DamagedDatabase
from app.settings import DATABASE_NAME
from storage import Store, open_store, opening
from tests.storage import samples

_PAGE = 4096


def _filled(home: Path, conversations: int = 60) -> set[str]:
    """A file of a few hundred pages, closed; returns the replies in it."""
    opened = open_store(home)
    said = set()
    for n in range(conversations):
        talk = samples.conversation(opened, f"title {n}")
        parent = None
        for m in range(4):
            text = f"reply {n} {m} " + "lorem ipsum " * 60
            parent = samples.exchange(opened, talk.id, parent, f"question {n} {m}", text)[1].id
            said.add(text)
    opened.close()
    return said


def _wipe(path: Path, pages: list[int]) -> None:
    data = bytearray(path.read_bytes())
    for page in pages:
        data[page * _PAGE : (page + 1) * _PAGE] = bytes(_PAGE)
    path.write_bytes(data)


def _pages_of(path: Path, table: str) -> list[int]:
    """The leaf pages of a table, counted from 0."""
    with closing(sqlite3.connect(path)) as db:
        try:
            rows = db.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,)).fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no dbstat")
    return [page - 1 for (page,) in rows]


def _replies(home: Path) -> tuple[set[str], tuple[str, ...]]:
    opened = open_store(home)
    try:
        found = set()
        for hit in opened.conversations(limit=1000).hits:
            found |= {
                message.content
                for message in opened.messages(hit.conversation.id)
                if message.content.startswith("reply")
            }
        opened.save_setting("works", True)
        assert opened.conversations("lorem").hits
        return found, opened.notices
    finally:
        opened.close()


def test_a_few_lost_pages_cost_only_what_was_on_them(fader_home: Path) -> None:
    said = _filled(fader_home)
    path = fader_home / DATABASE_NAME
    _wipe(path, random.Random(3).sample(_pages_of(path, "messages"), 3))
    damaged = path.read_bytes()
    found, notices = _replies(fader_home)
    assert found <= said
    assert len(found) >= 0.85 * len(said)
    assert "set aside" in notices[0]
    assert "messages were recovered" in notices[0]
    (aside,) = fader_home.glob("fader.db.damaged-*")
    assert aside.read_bytes() == damaged
    assert _replies(fader_home) == (found, ())  # the new file is sound


def test_a_lost_list_of_conversations_does_not_cost_the_messages(fader_home: Path) -> None:
    said = _filled(fader_home)
    path = fader_home / DATABASE_NAME
    _wipe(path, _pages_of(path, "conversations"))
    found, _ = _replies(fader_home)
    assert found == said
    opened = open_store(fader_home)
    assert "Recovered conversation" in samples.titles(opened)
    opened.close()


def test_gaps_are_filled_from_the_newest_backup(fader_home: Path) -> None:
    said = _filled(fader_home)
    path = fader_home / DATABASE_NAME
    opened = open_store(fader_home)
    opened.backup(fader_home / "backups" / "daily-20250101.db")
    talk = samples.conversation(opened, "later")
    samples.exchange(opened, talk.id, None, "question", "reply after the backup")
    opened.close()
    _wipe(path, _pages_of(path, "messages")[:5])
    found, _ = _replies(fader_home)
    assert found == said | {"reply after the backup"}


def test_a_file_that_is_no_database_any_more_comes_back_from_the_backup(fader_home: Path) -> None:
    said = _filled(fader_home, 5)
    opened = open_store(fader_home)
    opened.backup(fader_home / "backups" / "daily-20250101.db")
    opened.close()
    (fader_home / DATABASE_NAME).write_bytes(b"not a database " * 1000)
    found, notices = _replies(fader_home)
    assert found == said
    assert "doesn't begin like an SQLite file" in notices[0]


def test_a_damaged_index_is_made_anew(fader_home: Path) -> None:
    said = _filled(fader_home)
    path = fader_home / DATABASE_NAME
    _wipe(path, _pages_of(path, "message_search_data"))
    found, _ = _replies(fader_home)
    assert found == said


def test_a_truncated_file_is_recovered_in_part(fader_home: Path) -> None:
    said = _filled(fader_home)
    path = fader_home / DATABASE_NAME
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    found, _ = _replies(fader_home)
    assert all(any(whole.startswith(text) for whole in said) for text in found)  # a text may be cut where the file is
    assert len(found & said) > len(said) / 3


def test_wherever_a_file_is_damaged_it_opens_and_shows_or_says_why(fader_home: Path) -> None:
    _filled(fader_home, 6)
    path = fader_home / DATABASE_NAME
    sound = path.read_bytes()
    rng = random.Random(11)
    shown = refused = 0
    for _ in range(40):
        data = bytearray(sound)
        start, length = rng.randrange(len(data)), rng.choice([1, 16, 600, 9000])
        data[start : start + length] = rng.randbytes(length)
        path.write_bytes(data)
        opened = open_store(fader_home)
        try:
            for hit in opened.conversations(limit=1000).hits:
                shown += len(opened.messages(hit.conversation.id))
            opened.conversations("lorem has:error")
        except DamagedDatabase:
            refused += 1
        finally:
            opened.close()
        for leftover in fader_home.glob("fader.db*"):
            leftover.unlink()
    assert shown > 20 * 6 * 8
    assert refused < 10


def test_a_byte_gone_bad_in_a_text_costs_a_character(store: Store) -> None:
    talk = samples.conversation(store)
    asked, reply = samples.exchange(store, talk.id, None, "question", "reply")
    store._db.write(
        lambda db: db.execute("UPDATE messages SET content = CAST(x'61ff62' AS TEXT) WHERE id = ?", (asked.id,))
    )
    assert samples.texts(store, talk.id) == ["a\ufffdb", "reply"]
    store._db.write(lambda db: db.execute("UPDATE runs SET stats = '{' WHERE status = 'done'"))
    with pytest.raises(DamagedDatabase, match="backup"):
        store.message(reply.id)
    assert store.message(asked.id).content == "a\ufffdb"


def test_a_damaged_file_that_another_fader_uses_is_left_alone(fader_home: Path) -> None:
    _filled(fader_home, 10)
    path = fader_home / DATABASE_NAME
    user = open_store(fader_home)
    try:
        user._db.write(lambda db: db.execute("PRAGMA user_version"))
        path.with_name(path.name + "-wal").unlink()
        _wipe(path, _pages_of(path, "messages"))
        damaged = path.read_bytes()
        with pytest.raises(DamagedDatabase, match="Close every other Fader"):
            open_store(fader_home)
        assert path.read_bytes() == damaged
        assert list(fader_home.glob("fader.db.damaged-*")) == []
    finally:
        user.close()


def test_an_interrupted_recovery_is_completed(fader_home: Path) -> None:
    said = _filled(fader_home, 5)
    path = fader_home / DATABASE_NAME
    path.rename(path.with_name("fader.db.recovering"))
    assert _replies(fader_home)[0] == said


def test_damage_met_while_running_is_told(fader_home: Path) -> None:
    _filled(fader_home, 30)
    path = fader_home / DATABASE_NAME
    opened = open_store(fader_home)
    ids = [hit.conversation.id for hit in opened.conversations().hits]
    _wipe(path, _pages_of(path, "messages"))
    with pytest.raises(DamagedDatabase, match="Start Fader again"):
        list(map(opened.messages, ids))
    opened.close()


def test_the_check_at_the_start_is_bounded(fader_home: Path) -> None:
    _filled(fader_home, 20)
    with closing(sqlite3.connect(fader_home / DATABASE_NAME)) as db:
        start = time.monotonic()
        assert opening.first_fault(db, seconds=0.0) is None
        assert time.monotonic() - start < 1
        assert opening.first_fault(db, seconds=None) is None
