"""The page's files: each is found, each import leads somewhere, and a browser keeps only what can't change."""

from __future__ import annotations

import posixpath
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.errors import NotFound
from ui import static

ASSETS = Path(__file__).parents[2] / "assets"
IMPORT = re.compile(r"^import (?:\{ (?P<names>.+?) \} from )?\"(?P<path>.+?)\";", re.MULTILINE)


def text(name: str) -> str:
    return static.contents()[name].decode()


def test_every_file_of_the_page_is_served_and_packaged(client: TestClient) -> None:
    on_disk = {f.relative_to(ASSETS).as_posix() for f in ASSETS.rglob("*") if f.suffix in {".css", ".js", ".svg"}}
    assert on_disk == set(static.contents())
    project = tomllib.loads((ASSETS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = project["tool"]["setuptools"]["package-data"]["assets"]
    for name in on_disk:
        folder = posixpath.dirname(name)
        assert any(posixpath.dirname(glob) == folder and fnmatch(name, glob) for glob in packaged), name
        assert client.get(static.address(name)).content == (ASSETS / name).read_bytes()


def test_every_import_of_a_script_names_something_that_is_there() -> None:
    found = 0
    for name in static.contents():
        for names, path in IMPORT.findall(text(name)) if name.endswith(".js") else ():
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            for one in names.split(", ") if names else ():
                exported = rf"^export (?:async function|function|const|let) {re.escape(one)}(?![\w$])"
                assert re.search(exported, text(target), re.MULTILINE), f"{name} imports {one} from {target}"
            found += 1
    assert found > 50


def test_every_script_is_loaded() -> None:
    loaded, new = set[str](), {"main.js", "first.js"}
    while new:
        loaded |= new
        paths = {(name, path) for name in new for _, path in IMPORT.findall(text(name))}
        new = {posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for name, path in paths} - loaded
    assert loaded == {name for name in static.contents() if name.endswith(".js")}


def test_a_browser_keeps_files_for_ever_and_those_of_an_older_page_not_at_all(client: TestClient) -> None:
    kept = client.get(static.address("main.js"))
    assert "immutable" in kept.headers["cache-control"]
    assert kept.headers["content-type"].startswith("text/javascript")
    older = client.get(f"{static.PREFIX}/0123456789ab/page/start.js")
    assert (older.status_code, older.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize(
    "name", ["nonesuch.js", "presets/balanced.json", "../pyproject.toml", "%2e%2e/pyproject.toml", "__init__.py", ""]
)
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"{static.PREFIX}/{static.mark()}/{name}").status_code == 404
    with pytest.raises(NotFound, match="no file"):
        static.address(name)


def test_one_mark_is_in_all_addresses() -> None:
    assert {static.address(name).removesuffix(f"/{name}") for name in static.contents()} == {
        f"{static.PREFIX}/{static.mark()}"
    }
