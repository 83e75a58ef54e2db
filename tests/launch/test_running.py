"""Running a step's command: its output is shown and kept, its exit code is told, an interrupt ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import launch

PYTHON = sys.executable


def test_output_is_kept_and_the_exit_code_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; print('on stdout'); print('on stderr ä', file=sys.stderr); sys.exit(3)"
    outcome = launch.run_watched([PYTHON, "-c", code], "[1/1] A step", tmp_path / "log")
    assert outcome.code == 3
    assert sorted(outcome.lines) == ["on stderr ä", "on stdout"]
    assert "on stderr ä" in (tmp_path / "log").read_text(encoding="utf-8")
    shown = capsys.readouterr().err
    assert "[1/1] A step …" in shown
    assert "[1/1] A step: failed" in shown


def test_long_step_shows_time_and_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "QUIET_SECONDS", 0.0)
    launch.run_watched([PYTHON, "-c", "print('Progress 49000000 of 98000000')"], "A step", tmp_path / "log")
    assert "A step … 0:00  49 of 98 MB" in capsys.readouterr().err


def test_step_asks_nothing_and_installs_for_this_environment_only(tmp_path: Path) -> None:
    code = "import json, os, sys; print(json.dumps([sys.stdin.read(), os.environ['PIP_USER']]))"
    outcome = launch.run_watched([PYTHON, "-c", code], "A step", tmp_path / "log")
    assert json.loads(outcome.lines[0]) == ["", "0"]


@pytest.mark.skipif(launch.WINDOWS, reason="sends POSIX signals")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_launcher_and_step(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    """A real launch.py in a project folder whose python -m venv hangs: it must end, and take the step with it."""
    (tmp_path / "launch.py").write_bytes(Path(launch.__file__).read_bytes())
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "venv.py").write_text(
        "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\nprint('hanging')\ntime.sleep(600)\n",
        encoding="utf-8",
    )
    with subprocess.Popen(
        [PYTHON, "-c", "import sys, launch; launch.QUIET_SECONDS = 0; launch.start(sys.argv[1:])", "setup"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stderr
        next(line for line in process.stderr if "hanging" in line)
        process.send_signal(sent)
        assert process.wait(30) == code
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.skipif(launch.WINDOWS, reason="POSIX replaces the process")
def test_launcher_becomes_the_command(tmp_path: Path) -> None:
    code = f"import launch; launch.hand_over([{PYTHON!r}, '-c', 'import os, sys; print(os.getpid()); sys.exit(5)'])"
    with subprocess.Popen([PYTHON, "-c", code], cwd=launch.ROOT, stdout=subprocess.PIPE, encoding="utf-8") as process:
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 5
    assert int(out) == process.pid


def test_second_set_up_waits_for_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = f"import launch, pathlib\nwith launch.locked(pathlib.Path({str(lock)!r})): print('mine')"
    with launch.locked(lock):
        process = subprocess.Popen(
            [PYTHON, "-c", code],
            cwd=launch.ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert process.stderr
        assert "waiting" in process.stderr.readline()
        assert process.poll() is None
    out, _ = process.communicate(timeout=30)
    assert out == "mine\n"
