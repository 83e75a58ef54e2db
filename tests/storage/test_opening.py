"""Opening: what is refused stays untouched, what can't be written is shown, what went wrong is said."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from sqlite_utils import Database as Tables

from app.conversation import RunStatus
from app.errors import NewerDatabase, StoreBusy, StoreError, StoreReadOnly
from app.settings import DATABASE_NAME
from storage import Store, database, faults, filesystems, migrations, open_store
from tests.storage import samples


def _filled(home: Path) -> Path:
    """A data folder with a conversation, closed; returns its file."""
    opened = open_store(home)
    talk = samples.conversation(opened, "Tea")
    samples.exchange(opened, talk.id, None, "Why?", "Because.")
    opened.close()
    return home / DATABASE_NAME


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_new_data_folder_is_made_and_has_nothing_to_tell(tmp_path: Path) -> None:
    opened = open_store(tmp_path / "some" / "where")
    assert opened.notices == ()
    assert opened.conversations().hits == ()
    opened.close()


def test_the_file_is_set_up_to_survive(store: Store, fader_home: Path) -> None:
    with closing(sqlite3.connect(fader_home / DATABASE_NAME)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with store._db.read() as db:
        assert db.execute("PRAGMA foreign_keys").fetchone()[0] == 1
        assert db.execute("PRAGMA busy_timeout").fetchone()[0] == database.BUSY_MS
        with pytest.raises(sqlite3.OperationalError):
            db.execute("DELETE FROM messages")


def test_a_later_faders_file_is_refused_and_left_as_it_is(fader_home: Path) -> None:
    path = _filled(fader_home)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('fader', '999_telepathy', '')"
        )
    before = _digest(path)
    with pytest.raises(NewerDatabase, match="999_telepathy"):
        open_store(fader_home)
    assert _digest(path) == before
    assert [one.name for one in fader_home.iterdir() if one.is_file()] == [DATABASE_NAME]


def test_a_file_whose_making_was_interrupted_is_completed(fader_home: Path) -> None:
    path = _filled(fader_home)
    for statement in ("DROP TABLE {}", "SELECT 1"):
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(f"PRAGMA application_id = {migrations.APPLICATION_ID}")
            migrations.migrations.ensure_migrations_table(Tables(db))
            db.execute(statement.format("_sqlite_migrations"))
        opened = open_store(fader_home)
        assert opened.notices == ()
        samples.conversation(opened, "Tea")
        opened.close()


def test_a_file_taken_away_while_running_is_told(store: Store, fader_home: Path) -> None:
    talk = samples.conversation(store)
    path = fader_home / DATABASE_NAME
    path.rename(fader_home / "elsewhere.db")
    with pytest.raises(StoreError, match="moved, deleted or replaced"):
        store.update_conversation(talk.id, title="lost")
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="moved, deleted or replaced"):
        store.update_conversation(talk.id, title="lost")
    (fader_home / "elsewhere.db").replace(path)
    assert store.update_conversation(talk.id, title="kept").title == "kept"


def test_another_programs_file_is_refused_and_left_as_it_is(fader_home: Path) -> None:
    path = fader_home / DATABASE_NAME
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE cookies (name)")
    before = _digest(path)
    with pytest.raises(StoreError, match="another program"):
        open_store(fader_home)
    assert _digest(path) == before


def test_an_empty_file_is_begun_anew_and_the_backup_is_pointed_out(fader_home: Path) -> None:
    path = _filled(fader_home)
    opened = open_store(fader_home)
    opened.backup(fader_home / "backups" / "daily-20250101.db")
    opened.close()
    path.write_bytes(b"")
    opened = open_store(fader_home)
    assert "fader restore" in opened.notices[0]
    assert opened.conversations().hits == ()
    opened.close()


def test_a_network_file_system_is_recognised_and_told(fader_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _filled(fader_home)
    part = type(psutil.disk_partitions(all=True)[0])
    mounts = [part("server:/export", str(fader_home.resolve()), "nfs4", "rw"), part("disk", "/", "ext4", "rw")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounts)
    opened = open_store(fader_home)
    assert "network file system (nfs4)" in opened.notices[0]
    talk = samples.conversation(opened, "Coffee")
    samples.exchange(opened, talk.id, None, "How?", "So.")
    assert samples.titles(opened) == ["Coffee", "Tea"]
    opened.close()
    with closing(sqlite3.connect(fader_home / DATABASE_NAME)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize(
    ("kind", "options", "network"),
    [
        ("ext4", "rw", None),
        ("fuse.sshfs", "rw", "fuse.sshfs"),
        ("cifs", "rw", "cifs"),
        ("NTFS", "rw,remote", "ntfs"),
        ("apfs", "rw", None),
    ],
)
def test_which_file_systems_are_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: str, network: str | None
) -> None:
    part = type(psutil.disk_partitions(all=True)[0])
    mounts = [part("other", "/", "nfs", "rw"), part("this", str(tmp_path.resolve()), kind, options)]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounts)
    assert filesystems.network_file_system(tmp_path / "home") == network


def test_a_file_locked_by_another_program_is_told_and_works_afterwards(
    store: Store, fader_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = samples.conversation(store)
    store._db._writer_connection.execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(fader_home / DATABASE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="try again"):
            store.update_conversation(talk.id, title="New")
        assert store.conversation(talk.id).title == "A talk"  # reading goes on
        other.execute("ROLLBACK")
    assert store.update_conversation(talk.id, title="New").title == "New"


_READ_ONLY = """
import os, sys
from pathlib import Path
from app.errors import StoreReadOnly
from storage import open_store
from tests.storage import samples
os.setgid(65534); os.setuid(65534)
try:
    opened = open_store(Path(sys.argv[1]))
except StoreReadOnly as error:
    print("refused:", error)
    raise SystemExit
print(opened.notices[0])
print(samples.titles(opened), samples.titles(opened, "because"))
try:
    samples.conversation(opened)
except StoreReadOnly as error:
    print("refused:", error)
opened.close()
"""


def _as_nobody(folder: Path) -> str:
    """Open a data folder without permission to write it; returns what was seen."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("takes root, to become a user without permissions")
    place = Path(shutil.copytree(folder, Path(tempfile.gettempdir()) / f"fader-read-only-{os.getpid()}"))
    try:
        for path in (place, *place.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        done = subprocess.run(
            [sys.executable, "-c", _READ_ONLY, str(place)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
    finally:
        shutil.rmtree(place)


def test_a_read_only_data_folder_can_be_looked_at(fader_home: Path) -> None:
    _filled(fader_home)
    seen = _as_nobody(fader_home).splitlines()
    assert "can only be read" in seen[0]
    assert seen[1] == "['Tea'] ['Tea']"
    assert seen[2].startswith("refused:")


def test_a_read_only_folder_without_conversations_is_refused(fader_home: Path) -> None:
    assert _as_nobody(fader_home).startswith("refused:")


def test_a_read_only_disk_reads_as_one(fader_home: Path) -> None:
    import errno

    with pytest.raises(StoreReadOnly), faults.translated(fader_home / DATABASE_NAME):
        raise OSError(errno.EROFS, "Read-only file system", str(fader_home))


def test_opening_marks_what_a_dead_process_left(fader_home: Path) -> None:
    script = (
        "import os; from pathlib import Path; from storage import open_store; from tests.storage import samples\n"
        f"s = open_store(Path({str(fader_home)!r})); t = samples.conversation(s); _, m, r = samples.begin(s, t.id, None, 'Why?')\n"
        "s.flush_run(r.id, 'Beca', 'generating'); print(m.id, flush=True); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 9, done.stderr
    opened = open_store(fader_home)
    message = opened.message(done.stdout.strip())
    assert message.content == "Beca"
    assert message.run is not None
    assert message.run.status is RunStatus.INTERRUPTED
    assert opened.interrupt_orphans() == 0
    opened.close()
    assert [one.name for one in (fader_home / "locks").iterdir() if not one.name.startswith("_")] == []


def test_a_data_folder_that_can_not_be_made_names_the_way_out(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(StoreReadOnly, match="Set FADER_HOME"):
        open_store(blocked / "home")
