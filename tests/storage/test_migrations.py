"""Every earlier layout, with data in it, is brought up to date without losing anything; a copy of before is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.conversation import Role
from app.errors import StoreBusy, StoreError
from app.settings import DATABASE_NAME
from storage import open_store
from storage.database import Access, connect
from storage.migrations import migrate, migrations
from tests.storage import samples

STEPS = [step.name for step in migrations._migrations]


def old_file(path: Path, step: str | None) -> None:
    """A file as a Fader wrote it that did not know ``step`` yet (None: nothing is missing), with what it could hold by then."""
    with closing(connect(path, Access())) as db:
        migrate(db, stop_before=step)
        done = STEPS if step is None else STEPS[: STEPS.index(step)]
        if "001_conversations" in done:
            db.execute(
                "INSERT INTO conversations (key, id, title, system_prompt, parameters, shown_leaf, pinned, created_at, updated_at) "
                "VALUES (1, 'c', 'Tea', '', '{}', 'm2', 0, 1000, 1000)"
            )
            for key, id_, parent, role, text in (
                (10, "m1", None, "user", "Why?"),
                (11, "m2", 10, "assistant", "Because 東京."),
            ):
                db.execute(
                    "INSERT INTO messages (key, id, conversation, parent, role, created_at, content) VALUES (?, ?, 1, ?, ?, 1000, ?)",
                    (key, id_, parent, role, text),
                )
        if "002_runs" in done:
            db.execute("INSERT INTO documents VALUES (1, x'00', '{\"name\": \"tiny\"}')")
            db.execute(
                "INSERT INTO runs (message, id, status, fingerprint, notes, stats, created_at) VALUES (11, 'r', 'done', 1, '[]', '{}', 5)"
            )
            db.execute("INSERT INTO traces VALUES (11, x'ff')")
        if "003_presets_and_settings" in done:
            db.execute("INSERT INTO presets VALUES ('mine', '{\"top_k\": 3}')")
            db.execute("INSERT INTO settings VALUES ('model', '\"tiny\"')")


@pytest.mark.parametrize("step", [*STEPS[1:], None])
def test_an_earlier_file_is_brought_up_to_date(fader_home: Path, step: str | None) -> None:
    path = fader_home / DATABASE_NAME
    old_file(path, step)
    opened = open_store(fader_home)
    try:
        assert samples.texts(opened, "c") == ["Why?", "Because 東京."]
        assert opened.message("m2").role is Role.ASSISTANT
        if step != "002_runs":
            assert opened.run("r").model_fingerprint == {"name": "tiny"}
            assert opened.trace("r") == b"\xff"
        assert opened.conversation("c").preset == ""
        if step not in {"002_runs", "003_presets_and_settings"}:
            assert opened.presets()["mine"] == {"top_k": 3}
            assert opened.setting("model") == "tiny"
        if step not in {None, "005_preset_of_a_conversation"}:  # the index is made from what is there
            assert samples.titles(opened, "because 東京") == ["Tea"]
            assert samples.titles(opened, "tea") == ["Tea"]
        assert len(opened.notices) == (step is not None)
    finally:
        opened.close()
    copies = list((fader_home / "backups").glob(f"before-{step}-*.db"))
    assert len(copies) == (step is not None)
    for copy in copies:
        with closing(sqlite3.connect(copy)) as db:
            assert db.execute("SELECT content FROM messages WHERE id = 'm1'").fetchone() == ("Why?",)


def test_a_failing_step_leaves_the_file_as_it_was(fader_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(fader_home / DATABASE_NAME, "004_search")
    from storage import index

    def fail(db: sqlite3.Connection) -> None:
        index.add_title(db, 1, "half done")
        raise sqlite3.OperationalError

    with monkeypatch.context() as broken:
        broken.setattr("storage.migrations.index.rebuild", fail)
        with pytest.raises(StoreError, match="could not be read or written"):
            open_store(fader_home)
    with closing(sqlite3.connect(fader_home / DATABASE_NAME)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'message_search'").fetchone() == (0,)
    opened = open_store(fader_home)
    assert samples.titles(opened, "because") == ["Tea"]
    opened.close()


def test_a_file_in_use_by_an_earlier_fader_is_not_changed_under_it(fader_home: Path) -> None:
    opened = open_store(fader_home)
    opened._db.write(lambda db: db.execute("DELETE FROM _sqlite_migrations WHERE name = '004_search'"))
    with pytest.raises(StoreBusy, match="Close it first"):
        open_store(fader_home)
    opened.close()
