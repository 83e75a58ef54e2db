"""Commands that talk to a running Fader: a real server process, found through its data folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from app.cli import app
from tests.models.tiny import tiny_llama


def test_unload_frees_the_model_of_the_running_server_and_ctrl_c_ends_it_cleanly(
    tmp_path: Path, fader_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FADER_MODEL", str(tiny_llama(tmp_path / "tiny")))
    words = [sys.executable, "-m", "app", "run", "--no-browser", "--port", "7960"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert server.stdout is not None
        address = next(line.split()[-1] for line in server.stdout if "Fader is at" in line)
        result = CliRunner().invoke(app, ["models", "unload", "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["state"] == "none"
        with urlopen(f"{address}healthz") as answer:
            assert json.load(answer) == {"status": "ok", "model": None}
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()
    assert not (fader_home / "server.json").exists()


def test_without_a_server_unload_says_so(fader_home: Path) -> None:
    result = CliRunner().invoke(app, ["models", "unload"])
    assert result.exit_code == 2
    assert f"No Fader is running on {fader_home}" in result.stderr
