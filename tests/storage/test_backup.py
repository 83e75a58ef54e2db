"""Backups while running, daily ones, and restoring: complete or not there, and nothing is overwritten unasked."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from threading import Event

import pytest

from app.errors import DamagedDatabase, NewerDatabase, NotFound, RefusedInput, StoreBusy, StoreError, StoreFull
from app.settings import DATABASE_NAME
from storage import Store, backup, open_store, restore
from tests.storage import samples


def test_a_backup_of_a_running_store_has_everything_committed(store: Store, tmp_path: Path, fader_home: Path) -> None:
    talk = samples.conversation(store, "Tea")
    samples.exchange(store, talk.id, None, "Why?", "Because.")
    _, _, run = samples.begin(store, talk.id, None, "running")
    copy = tmp_path / "folder" / "copy.db"
    store.backup(copy)
    store.finish_run(samples.ended(run), "done")
    assert [one.name for one in copy.parent.iterdir()] == ["copy.db"]
    other = tmp_path / "other"
    restore(other, copy)
    again = open_store(other)
    assert samples.titles(again, "because") == ["Tea"]
    again.close()


def test_a_backup_overwrites_nothing(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "precious.txt"
    file.write_text("precious")
    with pytest.raises(RefusedInput, match="exists already"):
        store.backup(file)
    assert file.read_text() == "precious"


def test_restore_brings_the_backup_back_and_keeps_what_was_there(fader_home: Path, tmp_path: Path) -> None:
    opened = open_store(fader_home)
    talk = samples.conversation(opened, "Tea")
    opened.backup(tmp_path / "copy.db")
    opened.update_conversation(talk.id, title="Coffee")
    opened.close()
    told = restore(fader_home, tmp_path / "copy.db")
    assert "before-restore-" in told[0]
    opened = open_store(fader_home)
    assert samples.titles(opened) == ["Tea"]
    opened.close()
    (kept,) = (fader_home / "backups").glob("before-restore-*.db")
    restore(fader_home, kept)
    opened = open_store(fader_home)
    assert samples.titles(opened) == ["Coffee"]
    opened.close()


def test_restore_is_refused_while_fader_runs(store: Store, fader_home: Path, tmp_path: Path) -> None:
    samples.conversation(store, "Tea")
    store.backup(tmp_path / "copy.db")
    samples.conversation(store, "Coffee")
    with pytest.raises(StoreBusy, match="Close it"):
        restore(fader_home, tmp_path / "copy.db")
    assert len(samples.titles(store)) == 2


def test_only_a_sound_copy_of_fader_is_restored(fader_home: Path, tmp_path: Path) -> None:
    opened = open_store(fader_home)
    for n in range(50):
        talk = samples.conversation(opened, "Tea")
        samples.exchange(opened, talk.id, None, "Why?", f"Because {n} " + "word " * 200)
    opened.backup(tmp_path / "damaged.db")
    opened.backup(tmp_path / "newer.db")
    opened.close()
    path = fader_home / DATABASE_NAME
    before = path.read_bytes()
    data = bytearray((tmp_path / "damaged.db").read_bytes())
    for start in range(8 * 4096, len(data), 3 * 4096):
        data[start : start + 4096] = bytes(4096)
    (tmp_path / "damaged.db").write_bytes(data)
    (tmp_path / "text.db").write_text("no database at all " * 100)
    (tmp_path / "empty.db").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as db:
        db.execute("CREATE TABLE cookies (name)")
    with closing(sqlite3.connect(tmp_path / "newer.db", isolation_level=None)) as db:
        db.execute("INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('fader', '999', '')")
    for name, error in (
        ("damaged.db", DamagedDatabase),
        ("text.db", DamagedDatabase),
        ("empty.db", DamagedDatabase),
        ("foreign.db", StoreError),
        ("newer.db", NewerDatabase),
        ("missing.db", NotFound),
    ):
        with pytest.raises(error):
            restore(fader_home, tmp_path / name)
        assert path.read_bytes() == before
    with pytest.raises(RefusedInput):
        restore(fader_home, path)


def test_a_damaged_file_is_set_aside_by_restore(fader_home: Path, tmp_path: Path) -> None:
    opened = open_store(fader_home)
    samples.conversation(opened, "Tea")
    opened.backup(tmp_path / "copy.db")
    opened.close()
    (fader_home / DATABASE_NAME).write_bytes(b"ruined" * 1000)
    told = restore(fader_home, tmp_path / "copy.db")
    assert "damaged" in told[0]
    opened = open_store(fader_home)
    assert samples.titles(opened) == ["Tea"]
    opened.close()
    assert [one.read_bytes() for one in fader_home.glob("fader.db.damaged-*")] == [b"ruined" * 1000]


def test_one_daily_backup_a_day_and_the_last_seven_are_kept(store: Store, fader_home: Path) -> None:
    folder = fader_home / "backups"
    folder.mkdir()
    for day in range(1, 10):
        (folder / f"daily-2020010{day}.db").write_bytes(b"old")
    (folder / "before-004-20200101.db").write_bytes(b"kept")
    samples.conversation(store, "Tea")
    today = backup.daily(fader_home / DATABASE_NAME)
    assert today == folder / f"daily-{datetime.now().astimezone():%Y%m%d}.db"
    assert backup.daily(fader_home / DATABASE_NAME) is None
    names = sorted(one.name for one in folder.iterdir())
    assert names == ["before-004-20200101.db", *(f"daily-2020010{day}.db" for day in range(4, 10)), today.name]


def test_a_daily_backup_does_not_take_the_last_space(
    store: Store, fader_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples.conversation(store, "Tea")
    (fader_home / "backups").mkdir()
    left = fader_home / "backups" / "daily-20200101.db.partial"
    left.write_bytes(b"half")
    usage = type(shutil.disk_usage(fader_home))
    with monkeypatch.context() as small:
        small.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 10**6, 10**6))
        with pytest.raises(StoreFull):
            backup.daily(fader_home / DATABASE_NAME)
    assert list((fader_home / "backups").iterdir()) == []
    assert backup.daily(fader_home / DATABASE_NAME)


def test_the_daily_backup_is_made_while_the_store_is_open(fader_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Event()
    monkeypatch.setattr(backup, "_FIRST_S", 0.0)
    monkeypatch.setattr(backup, "daily", lambda _: made.set())
    opened = open_store(fader_home)
    assert made.wait(10)
    opened.close()


def test_damage_that_the_daily_backup_finds_is_told(fader_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_store(fader_home)
    talk = samples.conversation(opened, "Tea")
    for n in range(30):
        samples.exchange(opened, talk.id, None, "Why?", f"Because {n} " + "word " * 300)
    opened.close()
    path = fader_home / DATABASE_NAME
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 30_000] = bytes(30_000)
    checked = Event()
    daily = backup.daily

    def check(file: Path) -> None:
        path.write_bytes(data)
        try:
            daily(file)
        finally:
            checked.set()

    monkeypatch.setattr(backup, "_FIRST_S", 0.0)
    monkeypatch.setattr(backup, "daily", check)
    opened = open_store(fader_home)
    assert checked.wait(20)
    opened.close()
    assert "is damaged" in opened.notices[-1]
    assert list((fader_home / "backups").iterdir()) == []


def test_a_daily_backup_that_fails_leaves_the_earlier_ones_and_the_store(
    store: Store, fader_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fader_home / "backups").write_text("in the way of the folder")
    with pytest.raises(StoreError):
        backup.daily(fader_home / DATABASE_NAME)
    samples.conversation(store, "Tea")
    assert samples.titles(store) == ["Tea"]
