"""House rules that can be read off the sources: who may import whom, modules explain themselves, no machine leaks in."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("app", "assets", "storage", "ui")
PROJECT = (*ROOMS, "tests", "bench", "launch")

FORBIDDEN = {
    "app": ("gradio", "fastapi", "starlette", "uvicorn", "sqlite3", "sqlite_utils", "storage", "ui", "tests"),
    "storage": ("gradio", "fastapi", "torch", "transformers", "ui", "app.cli", "tests"),
    "ui": ("storage", "sqlite3", "sqlite_utils", "torch", "transformers", "app.cli", "tests"),
    "assets": ("app", "storage", "ui", "tests"),
}
PUTS_THE_PARTS_TOGETHER = "app/cli.py"

MACHINE = re.compile(r"(?<![\w./-])/(?:home|root|work|Users|tmp|opt|mnt)/\w|[A-Za-z]:\\\\?Users")


def sources(*folders: str) -> list[Path]:
    """The Python files of some folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    """A path as the reader of a failure wants to see it."""
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module a file imports, wherever in the file it does so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, package: str) -> bool:
    """True when a module is the package or lies in it."""
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("path", sources(*ROOMS), ids=name)
def test_imports_go_in_the_allowed_direction_only(path: Path) -> None:
    if name(path) == PUTS_THE_PARTS_TOGETHER:
        pytest.skip("the one place that puts the parts together")
    forbidden = FORBIDDEN[path.relative_to(ROOT).parts[0]]
    found = {m for m in imports(ast.parse(path.read_text(encoding="utf-8"))) for f in forbidden if within(m, f)}
    assert not found


@pytest.mark.parametrize("path", [*sources(*PROJECT[:-1], "docs"), ROOT / "launch.py"], ids=name)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body


def tracked() -> list[Path]:
    """The text files under version control."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    binary = {".png", ".gguf", ".safetensors", ".ico", ".gz", ".db"}
    return [path for path in paths if path.is_file() and path.suffix not in binary and path != Path(__file__)]


def test_no_file_names_the_machine_it_was_written_on() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    found = {
        f"{name(path)}:{number}: {line.strip()[:80]}"
        for path in tracked()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE.search(line)
    }
    assert not found


def test_the_page_is_there_before_the_heavy_libraries() -> None:
    """They take seconds to import; the model's thread does it while the page already answers."""
    heavy = "('torch', 'transformers', 'bitsandbytes')"
    words = f"import sys, app.chat, app.cli, storage, ui.server; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
