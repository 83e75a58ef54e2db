"""A full disk: the reason is told, nothing that was kept is harmed, and writing goes on once there is room again."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import StoreFull
from app.settings import DATABASE_NAME
from storage import Store, faults, open_store
from tests.storage import samples


def _limit(store: Store, pages: int) -> None:
    store._db.write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}"))


def test_a_full_disk_is_told_and_passes(store: Store, fader_home: Path) -> None:
    talk = samples.conversation(store, "Tea")
    _, reply, run = samples.begin(store, talk.id, None, "Why?")
    store.flush_run(run.id, "Beca", "generating")
    _limit(store, 1)
    long = "Because " * 20_000
    with pytest.raises(StoreFull, match="make room"):
        store.finish_run(samples.ended(run), long)
    with pytest.raises(StoreFull):
        samples.exchange(store, talk.id, None, long, long)
    assert store.message(reply.id).content == "Beca"
    assert samples.texts(store, talk.id) == ["Why?", "Beca"]
    _limit(store, 1_000_000)
    store.finish_run(samples.ended(run), long)
    assert store.message(reply.id).content == long
    store.close()
    again = open_store(fader_home)
    assert again.notices == ()
    assert again.message(reply.id).content == long
    again.close()


_FILE_LIMIT = """
import resource, signal, sys
from pathlib import Path
from app.errors import StoreFull
from storage import open_store
from tests.storage import samples
home = Path(sys.argv[1])
opened = open_store(home)
talk = samples.conversation(opened, "Tea")
samples.exchange(opened, talk.id, None, "Why?", "Because.")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
size = max(path.stat().st_size for path in home.glob("fader.db*"))
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, hard))
try:
    samples.exchange(opened, talk.id, None, "long", "word " * 200_000)
except StoreFull:
    print("full")
print(samples.texts(opened, talk.id))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
samples.exchange(opened, talk.id, None, "again", "yes")
print(samples.texts(opened, talk.id))
opened.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of file sizes there")
def test_a_write_that_the_system_refuses_reads_as_a_full_disk(fader_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FILE_LIMIT, str(fader_home)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    seen = done.stdout.splitlines()
    assert seen[0] == "full"
    assert seen[-1] == "['again', 'yes']"


def test_a_really_full_disk(tmp_path: Path) -> None:
    """On a small file system of its own, where that can be had."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = Path(tmp_path) / "fill.py"
    script.write_text(_REALLY_FULL, encoding="utf-8")
    mount = f"mount -t tmpfs -o size=3m none {disk} && exec {sys.executable} {script} {disk / 'home'}"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    if "started" not in done.stdout:
        pytest.skip("takes the right to mount a small file system")
    assert done.stderr == ""
    assert done.stdout.splitlines()[1:] == ["full", "all kept", "works again"]


_REALLY_FULL = """
import sys
from pathlib import Path
from app.errors import StoreFull
from storage import open_store
from tests.storage import samples
home = Path(sys.argv[1])
opened = open_store(home)
print("started")
ballast = home / "ballast"
ballast.write_bytes(bytes(300_000))
talk = samples.conversation(opened, "Tea")
kept = {}
try:
    while True:
        _, reply = samples.exchange(opened, talk.id, None, "Why?", "Because. " * 500)
        kept[reply.id] = reply.content
except StoreFull:
    print("full")
opened.close()
opened = open_store(home)
assert kept and all(opened.message(id_).content == text for id_, text in kept.items())
print("all kept")
ballast.unlink()
samples.exchange(opened, talk.id, None, "Why?", "Because.")
print("works again")
opened.close()
"""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_what_the_system_calls_full(fader_home: Path, number: int) -> None:
    with pytest.raises(StoreFull), faults.translated(fader_home / DATABASE_NAME):
        raise OSError(number, os.strerror(number))
