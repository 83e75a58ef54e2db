"""The set-up: does what is missing, in order, once; is resumed after failure or interrupt; is never used half-made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from launch import Failed, Outcome, Setup
from tests.launch.fakes import NO_NETWORK, FakeRunner, project

EVERYTHING = ["environment", "packages", "model", "prepared"]


def again(setup: Setup) -> tuple[Setup, FakeRunner]:
    """The same folder at the next start."""
    runner = FakeRunner(setup.venv)
    return Setup(setup.root, runner), runner


def test_first_start_does_everything_in_order_and_counts_the_steps(tmp_path: Path) -> None:
    setup, runner = project(tmp_path)
    setup.ensure()
    assert runner.done() == EVERYTHING
    assert [title.split()[0] for title in runner.titles] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]


def test_second_start_does_nothing(tmp_path: Path) -> None:
    setup, _ = project(tmp_path)
    setup.ensure()
    setup, runner = again(setup)
    setup.ensure()
    assert runner.commands == []


@pytest.mark.parametrize("word", ["venv", "--editable", "--no-deps", "prepare"])
@pytest.mark.parametrize("accident", [KeyboardInterrupt(), Outcome(1, ("boom",))], ids=["interrupted", "failed"])
def test_set_up_goes_on_with_the_step_that_was_not_completed(
    tmp_path: Path, word: str, accident: Outcome | BaseException
) -> None:
    setup, runner = project(tmp_path)
    runner.answers[word] = accident
    with pytest.raises((KeyboardInterrupt, Failed)):
        setup.ensure()
    cut = runner.done()[-1]
    setup, runner = again(setup)
    setup.ensure()
    assert runner.done() == EVERYTHING[EVERYTHING.index(cut) :]


def test_half_made_environment_is_emptied_before_the_next_try(tmp_path: Path) -> None:
    setup, runner = project(tmp_path)
    runner.answers["venv"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        setup.ensure()
    (setup.venv / "lib").mkdir()
    (setup.venv / "lib" / "half.py").touch()
    setup, _ = again(setup)
    setup.ensure()
    assert not (setup.venv / "lib").exists()


def test_changed_requirements_are_installed_without_a_new_environment(tmp_path: Path) -> None:
    setup, _ = project(tmp_path)
    setup.ensure()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'y'\n", encoding="utf-8")
    setup, runner = again(setup)
    setup.ensure()
    assert runner.done() == ["packages"]


def test_interrupted_change_is_not_taken_for_the_state_before_it(tmp_path: Path) -> None:
    setup, _ = project(tmp_path)
    setup.ensure()
    before = (tmp_path / "pyproject.toml").read_bytes()
    (tmp_path / "pyproject.toml").write_text("other", encoding="utf-8")
    setup, runner = again(setup)
    runner.answers["--editable"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        setup.ensure()
    (tmp_path / "pyproject.toml").write_bytes(before)
    setup, runner = again(setup)
    setup.ensure()
    assert runner.done() == ["packages"]


@pytest.mark.parametrize("change", ["moved", "other python", "python gone"])
def test_environment_that_no_longer_fits_is_made_anew(tmp_path: Path, change: str) -> None:
    first = tmp_path / "first"
    first.mkdir()
    setup, _ = project(first)
    setup.ensure()
    if change == "moved":
        setup, runner = again(Setup(first.rename(tmp_path / "second")))
    else:
        if change == "other python":
            setup.note("environment", f"Python 3.99 in {setup.venv}")
        else:
            setup.python.unlink()
        setup, runner = again(setup)
    setup.ensure()
    assert runner.done() == EVERYTHING


def test_environment_for_testing_also_runs_and_is_kept(tmp_path: Path) -> None:
    setup, runner = project(tmp_path)
    setup.ensure(test=True)
    assert runner.done() == ["environment", "packages", "model"]
    assert runner.commands[1][-1] == ".[test]"
    assert [title.split()[0] for title in runner.titles] == ["[1/3]", "[2/3]", "[3/3]"]
    setup, runner = again(setup)
    setup.ensure()
    assert runner.done() == ["prepared"]


@pytest.mark.parametrize(("test", "wanted"), [(False, ".[compiler]"), (True, ".[test,compiler]")])
def test_a_system_without_a_compiler_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: bool, wanted: str
) -> None:
    monkeypatch.setattr("launch.has_compiler", lambda: False)
    setup, runner = project(tmp_path)
    setup.ensure(test=test)
    assert runner.commands[1][-1] == wanted
    monkeypatch.setattr("launch.has_compiler", lambda: True)
    assert "packages" in [step.name for step in again(setup)[0].missing(test=test)]


def test_environment_for_running_gets_what_testing_needs(tmp_path: Path) -> None:
    setup, _ = project(tmp_path)
    setup.ensure()
    setup, runner = again(setup)
    setup.ensure(test=True)
    assert runner.done() == ["packages"]


def test_another_cache_folder_gets_the_model_prepared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, _ = project(tmp_path)
    setup.ensure()
    monkeypatch.setenv("FADER_CACHE", str(tmp_path / "elsewhere"))
    setup, runner = again(setup)
    setup.ensure()
    assert runner.done() == ["prepared"]


def test_unreadable_notes_count_as_nothing_done(tmp_path: Path) -> None:
    setup, _ = project(tmp_path)
    setup.ensure()
    setup.notes.write_text('{"environment": ', encoding="utf-8")
    setup, runner = again(setup)
    setup.ensure()
    assert runner.done() == EVERYTHING
    assert set(json.loads(setup.notes.read_text(encoding="utf-8"))) == set(EVERYTHING)


def test_environment_made_by_hand_is_used(tmp_path: Path) -> None:
    setup, runner = project(tmp_path)
    _by_hand(setup, "{}.{}.1".format(*sys.version_info[:2]))
    setup.ensure()
    assert runner.done() == ["packages", "model", "prepared"]


def test_environment_by_hand_of_another_python_is_refused_and_left_alone(tmp_path: Path) -> None:
    setup, runner = project(tmp_path)
    mine = _by_hand(setup, "3.9.1")
    with pytest.raises(Failed, match=r"move it away"):
        setup.ensure()
    assert mine.exists()
    assert runner.commands == []


def _by_hand(setup: Setup, version: str) -> Path:
    setup.python.parent.mkdir(parents=True)
    setup.python.touch()
    (setup.venv / "pyvenv.cfg").write_text(f"home = x\nversion = {version}\n", encoding="utf-8")
    mine = setup.venv / "mine.py"
    mine.touch()
    return mine


def test_start_goes_on_without_the_model_when_there_is_no_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup, runner = project(tmp_path)
    runner.answers["--no-deps"] = Outcome(1, NO_NETWORK)
    setup.ensure(without_model=True)
    assert "run --model PATH" in capsys.readouterr().err
    setup, runner = again(setup)
    setup.ensure(without_model=True)
    assert runner.done() == ["model", "prepared"]


def test_full_disk_is_not_taken_for_a_missing_network(tmp_path: Path) -> None:
    setup, runner = project(tmp_path)
    runner.answers["--no-deps"] = Outcome(1, (*NO_NETWORK, "OSError: [Errno 28] No space left on device"))
    with pytest.raises(Failed, match="disk is full"):
        setup.ensure(without_model=True)


@pytest.mark.parametrize(
    ("outcome", "advice"),
    [
        (Outcome(1, NO_NETWORK), "can't be reached"),
        (Outcome(1, ("OSError: [Errno 28] No space left on device",)), "disk is full"),
        (Outcome(1, ("PermissionError: [Errno 13] Permission denied: 'x'",)), "may not write"),
        (Outcome(1, ("ERROR: No matching distribution found for torch",)), "no release for this Python"),
        (Outcome(1, ("The virtual environment was not created because ensurepip is not available.",)), "python3-venv"),
        (Outcome(-9, ("",)), "memory"),
        (Outcome(2, ("never seen before",)), "delete the folder .venv"),
    ],
)
def test_failing_step_tells_what_its_last_lines_and_what_to_do(tmp_path: Path, outcome: Outcome, advice: str) -> None:
    setup, runner = project(tmp_path)
    early = tuple(f"early line {n}" for n in range(100))
    runner.answers["--editable"] = outcome._replace(lines=(*early, *outcome.lines))
    with pytest.raises(Failed) as failure:
        setup.ensure()
    text = str(failure.value)
    assert text.startswith("Packages")
    assert advice in text
    assert f"exit code {outcome.code}" in text
    assert outcome.lines[-1] in text
    assert "early line 0\n" not in text
