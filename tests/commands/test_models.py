"""``fader models``: settings are tried once or kept, copies are deleted when somebody agrees, and a claim of 4 bits is checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.models.service import ModelService
from app.settings import Settings
from tests.models.tiny import tiny_ernie_moe, tiny_llama

Fader = Callable[..., Result]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("cli-models") / "tiny")


@pytest.fixture
def fader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared_cache: Path) -> Fader:
    """The command over a cache of the test's own, with the session's kernels."""
    (shared_cache / "native").mkdir(exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "native").symlink_to(shared_cache / "native", target_is_directory=True)
    monkeypatch.setenv("FADER_CACHE", str(tmp_path / "cache"))
    runner = CliRunner()

    def call(*words: str, code: int = 0) -> Result:
        result = runner.invoke(app, ["models", *words])
        assert result.exit_code == code, result.output
        return result

    return call


def test_settings_are_shown_kept_and_used(fader: Fader, folder: Path) -> None:
    before = {row["name"]: row for row in json.loads(fader("settings", str(folder), "--json").stdout)}
    assert before["scheme"]["value"] == "auto"
    assert before["attention"]["takes"] == "a new load"
    assert before["scheme"]["takes"] == "a new 4-bit copy"
    shown = fader("settings", str(folder), "-o", "scheme=none", "-o", "attention=eager").stdout
    assert "A CHANGE NEEDS" in shown
    report = json.loads(fader("load", str(folder), "--json").stdout)
    assert report["options"]["scheme"] == "none"
    assert report["attention"] == "eager"
    assert report["share_4bit"] == 0
    assert (
        fader("settings", str(folder), "--reset", "--json").stdout == json.dumps(list(before.values()), indent=2) + "\n"
    )


def test_a_setting_can_be_tried_once(fader: Fader, folder: Path) -> None:
    report = json.loads(fader("load", str(folder), "-o", "scheme=fp4", "-o", "double_quant=off", "--json").stdout)
    assert (report["options"]["scheme"], report["fingerprint"]["double_quant"]) == ("fp4", False)
    assert (
        "loaded     fp4, computes in bfloat16"
        in fader("load", str(folder), "-o", "scheme=fp4", "-o", "double_quant=off").stdout
    )
    four_bit = json.loads(fader("estimate", str(folder), "--json").stdout)
    dense = json.loads(fader("estimate", str(folder), "-o", "scheme=none", "--json").stdout)
    assert four_bit["weights_bytes"] < dense["weights_bytes"]
    assert "fp4" in fader("prepare", str(folder), "-o", "scheme=fp4").stdout


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("scheme", "name=value"),
        ("scheme=int3", "scheme: 'int3' is not one of auto, nf4"),
        ("x=1", "no such setting of a load"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_loaded(
    fader: Fader, folder: Path, assignment: str, words: str
) -> None:
    assert words in fader("load", str(folder), "-o", assignment, code=2).output


def test_copies_are_listed_and_deleted_after_a_question(fader: Fader, folder: Path) -> None:
    assert "There are no prepared copies" in fader("remove").stdout
    fader("prepare", str(folder))
    fader("prepare", str(folder), "-o", "scheme=fp4")
    assert "nf4-double-bfloat16" in fader("remove").stdout
    (one, _other) = json.loads(fader("remove", "--json").stdout)
    assert one["nbytes"] > 10_000
    assert "--yes" in fader("remove", one["name"], code=2).output
    gone = json.loads(fader("remove", one["name"], "--yes", "--json").stdout)
    assert gone == {"removed": [one["name"]], "freed_bytes": one["nbytes"]}
    assert "Deleted 1" in fader("remove", str(folder), "--yes").stdout
    assert json.loads(fader("remove", "--json").stdout) == []
    assert (folder / "model.safetensors").exists()
    assert "There is no prepared copy" in fader("remove", str(folder), "--yes", code=2).output


def test_at_a_terminal_the_question_is_asked(fader: Fader, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.commands import loads

    fader("prepare", str(folder))
    answers = iter([False, True])
    monkeypatch.setattr("typer.confirm", lambda _question: next(answers))
    doomed = loads.copies_named(ModelService(Settings()).copies(), "tiny")
    assert [loads.agreed(doomed, yes=False, can_ask=True) for _ in range(2)] == [False, True]


def test_weights_that_are_not_4_bit_are_named(fader: Fader, tmp_path: Path) -> None:
    """An inner width of 72 can't be cut into blocks of 64: these experts stay in 16 bits, and the report says which."""
    odd = tiny_ernie_moe(tmp_path / "odd", moe_intermediate_size=72)
    report = json.loads(fader("load", str(odd), "--json").stdout)
    assert report["linear_share_4bit"] < 1
    (warning,) = report["warnings"]
    assert warning.startswith("Asked for 4-bit, but these are not: model.layers.{1–2}.mlp.experts")
    assert f"warning    {warning}" in fader("load", str(odd)).stdout
