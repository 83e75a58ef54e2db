"""How long a user waits at the beginning, and what Fader takes then: the command itself, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.report import Figure

FADER = (sys.executable, "-m", "app")
ROOT = Path(__file__).parent.parent
PORT = 7931
LATEST_S = 900.0
SETTLED_S = 2.0
"""After it is ready a model tries its fast step."""


def figures(home: Path, rounds: int, *, first_load: bool = False) -> Iterator[Figure]:
    """Start-up with the prepared model, and on request the first load of all, which converts it (minutes)."""
    if first_load:
        yield Figure("first load, conversion included", "s", [loading(home, cache=home / "empty-cache")])
    seconds = [loading(home) for _ in range(rounds)]
    yield Figure("later load", "s", seconds)
    starts = [start(home) for _ in range(rounds)]
    yield Figure("start to /healthz", "s", [health for health, _, _ in starts], goal="≤ 5 s")
    yield Figure("start to a ready model", "s", [ready for _, ready, _ in starts])
    firsts = [first_token(home) for _ in range(rounds)]
    yield Figure("first token after the page, a message waiting", "s", firsts, goal="≤ 3 s")
    yield Figure("resident memory of the server, model ready", "MiB", [mib for _, _, mib in starts])
    yield Figure("fader ask to its first word", "s", [first_word(home) for _ in range(rounds)])


def _environment(home: Path, cache: Path | None = None) -> dict[str, str]:
    kept = {"FADER_CACHE": str(cache)} if cache else {}
    return {**os.environ, "FADER_HOME": str(home), "PYTHONUNBUFFERED": "1", **kept}


def loading(home: Path, cache: Path | None = None) -> float:
    """Seconds of a load, as ``fader models load`` reports them."""
    command = [*FADER, "models", "load", "builtin", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(home, cache), stdout=subprocess.PIPE, check=True, text=True
    )
    return float(json.loads(done.stdout)["seconds"])


def start(home: Path) -> tuple[float, float, float]:
    """Seconds until the server answers and until its model is ready, and MiB it then takes."""
    began = time.perf_counter()
    command = [*FADER, "run", "--no-browser", "--port", str(PORT)]
    with subprocess.Popen(command, cwd=ROOT, env=_environment(home), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101
            address = next(line for line in process.stdout if "Fader is at" in line).split()[-1]
            _get(address + "healthz")
            health = time.perf_counter() - began
            while _get(address + "api/model")["state"] != "ready":
                if time.perf_counter() - began > LATEST_S:
                    raise TimeoutError("the model did not become ready")
                time.sleep(0.05)
            ready = time.perf_counter() - began
            time.sleep(SETTLED_S)
            return health, ready, psutil.Process(process.pid).memory_info().rss / 2**20
        finally:
            process.terminate()


def first_token(home: Path) -> float:
    """Seconds from the page to the first token of a message that is sent as soon as the page answers."""
    command = [sys.executable, "-m", "bench.first_token", str(PORT)]
    done = subprocess.run(command, cwd=ROOT, env=_environment(home), stdout=subprocess.PIPE, check=True, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return float(told["token"] - told["page"])


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310  (our own server)
        return json.loads(answer.read())


def first_word(home: Path) -> float:
    """Seconds from the command to the first character of a reply on the terminal."""
    began = time.perf_counter()
    command = [*FADER, "ask", "What is the capital of France?", "-p", "max_new_tokens=4"]
    with subprocess.Popen(command, cwd=ROOT, env=_environment(home), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101
        process.stdout.read(1)
        seconds = time.perf_counter() - began
        process.stdout.read()
    return seconds
