"""The command line of launch.py: what its words lead to, and how failures are told."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import launch
from launch import Outcome, main
from tests.launch.fakes import NO_NETWORK, project


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that launch.py became, without its becoming them."""
    commands: list[list[str]] = []

    def hand_over(command: Sequence[str]) -> int:
        commands.append(list(command))
        return 7

    monkeypatch.setattr(launch, "hand_over", hand_over)
    return commands


@pytest.mark.parametrize(
    ("words", "fader_words"),
    [
        ([], ["run"]),
        (["run", "--no-browser"], ["run", "--no-browser"]),
        (["ask", "What is 2 + 2?", "-p", "seed=1"], ["ask", "What is 2 + 2?", "-p", "seed=1"]),
    ],
)
def test_words_go_to_fader_and_its_exit_code_comes_back(
    tmp_path: Path, handed_over: list[list[str]], words: list[str], fader_words: list[str]
) -> None:
    setup, _ = project(tmp_path)
    assert main(words, setup) == 7
    assert handed_over == [[str(setup.fader), *fader_words]]


def test_page_opens_without_network(tmp_path: Path, handed_over: list[list[str]]) -> None:
    setup, runner = project(tmp_path)
    runner.answers["--no-deps"] = Outcome(1, NO_NETWORK)
    assert main([], setup) == 7
    assert handed_over == [[str(setup.fader), "run"]]


def test_setup_stops_before_starting(tmp_path: Path, handed_over: list[list[str]]) -> None:
    setup, runner = project(tmp_path)
    assert main(["setup"], setup) == 0
    assert runner.done()[-1] == "prepared"
    assert handed_over == []


def test_setup_without_network_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup, runner = project(tmp_path)
    runner.answers["--no-deps"] = Outcome(1, NO_NETWORK)
    assert main(["setup"], setup) == 1
    assert "can't be reached" in capsys.readouterr().err


def test_failing_step_starts_nothing(
    tmp_path: Path, handed_over: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    setup, runner = project(tmp_path)
    runner.answers["prepare"] = Outcome(1, ("the file is damaged",))
    assert main([], setup) == 1
    assert handed_over == []
    told = capsys.readouterr().err
    assert "the file is damaged" in told
    assert "run --model PATH" in told


def test_interrupt_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup, runner = project(tmp_path)
    runner.answers["--editable"] = KeyboardInterrupt()
    assert main([], setup) == 130
    assert "goes on where this one stopped" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(28, "No space left on device", ".venv"), "Make room"),
        (PermissionError(13, "Permission denied", ".venv"), "correct the permissions"),
        (OSError(30, "Read-only file system", ".venv"), "where you may write"),
    ],
)
def test_file_system_that_refuses_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: OSError, advice: str
) -> None:
    setup, runner = project(tmp_path)
    runner.answers["venv"] = error
    assert main([], setup) == 1
    assert advice in capsys.readouterr().err


def test_old_python_is_refused_with_the_newer_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup, runner = project(tmp_path)
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}" if name == "python3.12" else None)
    assert main([], setup) == 1
    told = capsys.readouterr().err
    assert "this is 3.9" in told
    assert "python3.12 launch.py" in told
    assert runner.commands == []


def test_python_without_venv_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup, _ = project(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "ensurepip" else object())
    assert main([], setup) == 1
    assert "apt install python3-venv" in capsys.readouterr().err


def test_help_sets_nothing_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup, runner = project(tmp_path)
    assert main(["--help"], setup) == 0
    assert "launch.py test [--full]" in capsys.readouterr().err
    assert runner.commands == []


def test_every_check_runs_though_an_early_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup, _ = project(tmp_path)
    ran: list[list[str]] = []

    def run(command: Sequence[str]) -> int:
        ran.append(list(command[1:]))
        return 3 if "mypy" in command else 0

    assert launch.run_checks(setup.python, ["--full", "tests/launch"], run) == 3
    assert ran == [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
        ["-m", "pytest", "--full", "tests/launch"],
    ]
    assert "Failed: mypy" in capsys.readouterr().err
    assert launch.run_checks(setup.python, [], lambda _: 0) == 0
