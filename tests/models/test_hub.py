"""Downloads from a hub that runs beside the test, in a process of their own: progress, Cancel, resuming, hashes, and every refusal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from tests.models.fake_hub import COMMIT, FakeHub, serving
from tests.models.tiny import tiny_llama

FETCH = """
import json, sys
from threading import Event
from app.models import hub
from app.models.watch import Watch

asked = json.loads(sys.argv[1])
cancelled, steps = Event(), []

def progress(what, done, total):
    steps.append([what, done, total])
    if asked.get("cancel_at") and done >= asked["cancel_at"]:
        cancelled.set()

told = {}
try:
    told["folder"] = str(hub.fetch(asked.get("repo", "someone/tiny"), Watch(progress, cancelled)))
except Exception as error:
    told |= {"kind": type(error).__name__, "error": str(error)}
print(json.dumps(told | {"steps": steps, "cached": str(hub.cached("someone/tiny") or "")}))
"""
LOAD = """
import json, sys
from app.models import budget, loading
from app.settings import Settings
from pathlib import Path

asked = json.loads(sys.argv[1])
if "free" in asked:
    budget.free_bytes = lambda _options: asked["free"]
try:
    loaded = loading.load_model("someone/tiny", Settings(cache=Path(asked["cache"])))
    print(json.dumps({"revision": loaded.facts.fingerprint["source"]["revision"]}))
except Exception as error:
    print(json.dumps({"kind": type(error).__name__, "error": str(error)}))
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of 4 MB, with files that aren't needed."""
    folder = tiny_llama(tmp_path_factory.mktemp("hub") / "tiny", hidden_size=256, intermediate_size=1024)
    (folder / "README.md").write_text("about")
    (folder / "model.onnx").write_bytes(b"x" * 1000)
    return folder


@pytest.fixture
def hub(weights: Path) -> Iterator[FakeHub]:
    with serving(FakeHub(weights)) as running:
        yield running


@dataclass
class Client:
    """Fader in a process of its own, with a hub cache of the test's own."""

    hub: FakeHub
    home: Path

    def __call__(self, code: str = FETCH, *, offline: bool = False, **asked: Any) -> Any:
        environment = {
            **os.environ,
            "HF_HOME": str(self.home),
            "HF_ENDPOINT": self.hub.address,
            "HF_HUB_OFFLINE": "1" if offline else "0",
            "HF_HUB_ETAG_TIMEOUT": "2",
        }
        done = subprocess.run(
            [sys.executable, "-c", code, json.dumps(asked)],
            cwd=Path(__file__).parents[2],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])

    def files(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.home.rglob(pattern) if path.is_file())


@pytest.fixture
def fetch(hub: FakeHub, tmp_path: Path) -> Client:
    return Client(hub, tmp_path / "hf")


def test_a_model_is_downloaded_with_progress_and_then_needs_no_network(fetch: Client, hub: FakeHub) -> None:
    told = fetch()
    assert Path(told["folder"]).name == COMMIT
    sent = [name for name, _ in hub.asked]
    assert "model.safetensors" in sent
    assert not {"README.md", "model.onnx"} & set(sent)
    bytes_told = [(done, total) for what, done, total in told["steps"] if what == "Downloading someone/tiny"]
    whole = sum(path.stat().st_size for path in Path(told["folder"]).iterdir())
    assert {total for _, total in bytes_told} == {whole}
    assert bytes_told[-1][0] == whole
    assert [done for done, _ in bytes_told] == sorted(done for done, _ in bytes_told)
    assert len({done for done, _ in bytes_told}) > 3
    again = fetch(offline=True)
    assert again["folder"] == told["folder"]
    assert again["steps"] == []


def test_a_cancelled_download_ends_soon_and_goes_on_where_it_was(fetch: Client, hub: FakeHub) -> None:
    told = fetch(cancel_at=1_500_000)
    assert told["kind"] == "Cancelled"
    assert told["cached"] == ""
    (half,) = fetch.files("*.fader-part")
    left = half.stat().st_size
    hub.asked.clear()
    again = fetch()
    assert Path(again["folder"]).name == COMMIT
    assert ("model.safetensors", f"bytes={left}-") in hub.asked
    first = next(done for what, done, _ in again["steps"] if what == "Downloading someone/tiny" and done)
    assert first >= left
    assert fetch.files("*.fader-part") == []


def test_a_connection_that_breaks_is_taken_up_again(fetch: Client, hub: FakeHub) -> None:
    hub.breaks = 2
    assert Path(fetch()["folder"]).name == COMMIT
    ranges = [asked for name, asked in hub.asked if name == "model.safetensors"]
    assert len(ranges) == 3
    assert ranges[0] == ""
    assert all(asked.startswith("bytes=") for asked in ranges[1:])


def test_a_file_with_a_wrong_hash_is_not_kept(fetch: Client, hub: FakeHub) -> None:
    hub.damaged = "model.safetensors"
    told = fetch()
    assert told["kind"] == "ModelDamaged"
    assert "model.safetensors of models--someone--tiny did not arrive as the hub has it" in told["error"]
    assert told["cached"] == ""
    hub.damaged = ""
    assert Path(fetch()["folder"]).name == COMMIT


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ((403, "GatedRepo"), "behind a licence. Accept it on the model’s page at the hub, and set HF_TOKEN"),
        ((401, "RepoNotFound"), "There is no model someone/tiny on the hub. If it is private, set HF_TOKEN"),
        ((403, ""), "does not let this machine have someone/tiny (403). Check the token in HF_TOKEN"),
        ((429, ""), "Too many downloads from here; try again later"),
        ((503, ""), "could not give someone/tiny (503). Try again later"),
    ],
)
def test_what_the_hub_refuses_is_said_with_the_way_out(
    fetch: Client, hub: FakeHub, refusal: tuple[int, str], words: str
) -> None:
    hub.refusal = refusal
    told = fetch()
    assert told["kind"] == "ModelNotFound"
    assert words in told["error"]
    assert "\n" not in told["error"]


def test_without_a_connection_it_says_so_at_once(weights: Path, tmp_path: Path) -> None:
    with serving(FakeHub(weights)) as gone:
        pass
    told = Client(gone, tmp_path / "hf")()
    assert told["kind"] == "ModelNotFound"
    assert "not on this machine and could not be downloaded (no connection?)" in told["error"]
    assert "--model PATH or FADER_MODEL" in told["error"]
    offline = Client(gone, tmp_path / "hf")(offline=True)
    assert "HF_HUB_OFFLINE forbids to fetch it" in offline["error"]


def test_what_lacks_only_an_extra_is_used_when_there_is_no_connection(fetch: Client, hub: FakeHub) -> None:
    folder = Path(fetch()["folder"])
    (folder / "generation_config.json").unlink()
    assert fetch(offline=True)["folder"] == str(folder)
    assert Path(fetch()["folder"], "generation_config.json").exists()
    (folder / "model.safetensors").unlink()
    assert fetch(offline=True)["kind"] == "ModelNotFound"


def test_a_model_that_cannot_run_here_is_refused_before_its_weights_are_fetched(
    fetch: Client, hub: FakeHub, settings: Settings
) -> None:
    told = fetch(LOAD, cache=str(settings.cache), free=1000)
    assert told["kind"] == "OutOfMemory"
    assert [name for name, _ in hub.asked] == ["config.json"]
    assert fetch(LOAD, cache=str(settings.cache))["revision"] == COMMIT


def test_an_architecture_that_is_not_known_is_refused_before_its_weights_are_fetched(
    weights: Path, tmp_path: Path, settings: Settings
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for file in weights.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "hovercraft"}
    (folder / "config.json").write_text(json.dumps(config))
    with serving(FakeHub(folder)) as odd:
        told = Client(odd, tmp_path / "hf")(LOAD, cache=str(settings.cache))
    assert told["kind"] == "UnsupportedModel"
    assert "hovercraft" in told["error"]
    assert [name for name, _ in odd.asked] == ["config.json"]


def test_a_repository_without_a_config_is_no_model(tmp_path: Path, settings: Settings) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    (folder / "model.Q4.gguf").write_bytes(b"GGUF")
    with serving(FakeHub(folder)) as only:
        told = Client(only, tmp_path / "hf")(LOAD, cache=str(settings.cache))
    assert told["error"].startswith(
        "someone/tiny has no config.json, so it isn’t a transformers model. Of a GGUF repository"
    )


def test_a_full_disk_is_noticed_before_the_download(fetch: Client, hub: FakeHub) -> None:
    code = FETCH.replace("asked = json", "import shutil; shutil.disk_usage = lambda _path: (10, 10, 0)\nasked = json")
    code = code.replace("(10, 10, 0)", "type('Usage', (), {'free': 0})")
    told = fetch(code)
    assert told["kind"] == "ModelError"
    assert "where 0.0 GB are free" in told["error"]
    assert "HF_HOME" in told["error"]
    assert hub.asked == []
