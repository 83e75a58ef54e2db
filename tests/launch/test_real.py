"""The real thing: a fresh clone is set up by its own launch.py, and afterwards needs neither network nor time."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from launch import ROOT, base_python

NOWHERE = "http://127.0.0.1:9"


def launch(clone: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the clone's launch.py as a user would."""
    return subprocess.run(
        [base_python(), "launch.py", *words],
        cwd=clone,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.full
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a checkout to clone")
def test_fresh_clone_is_set_up_and_then_needs_no_network(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    cache = str(tmp_path / "cache")

    first = launch(clone, "setup", FADER_CACHE=cache)
    assert first.returncode == 0, first.stderr
    notes = json.loads((clone / ".venv" / "fader-setup.json").read_text(encoding="utf-8"))
    assert set(notes) == {"environment", "packages", "model", "prepared"}
    assert any(Path(cache).rglob("*.safetensors"))

    second = launch(clone, "params", "--json", FADER_CACHE=cache, http_proxy=NOWHERE, https_proxy=NOWHERE)
    assert second.returncode == 0, second.stderr
    assert second.stderr == ""
    assert "temperature" in {row["name"] for row in json.loads(second.stdout)}
