"""The ``fader`` command as a script uses it: what it prints, what it stores, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from tests.models.tiny import tiny_llama

DOCUMENTED = {
    "run_id", "conversation_id", "message_id", "text", "finish_reason", "error", "seed", "requested", "effective",
    "notes", "prompt_ids", "output_ids", "stats", "model",
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("cli") / "tiny")


@pytest.fixture
def fader(monkeypatch: pytest.MonkeyPatch, tiny_folder: Path) -> Any:
    monkeypatch.setenv("FADER_MODEL", str(tiny_folder))
    runner = CliRunner()

    def call(*words: str, code: int = 0) -> Result:
        result = runner.invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result

    return call


def asked(fader: Any, *words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(fader("ask", *words, "-p", "max_new_tokens=6", "--json").stdout)
    return told


def test_ask_prints_the_documented_record(fader: Any) -> None:
    told = asked(fader, "hello", "-p", "temperature=0", "--seed", "7")
    assert set(told) >= DOCUMENTED
    assert told["requested"] == {"temperature": 0.0, "max_new_tokens": 6, "seed": 7}
    assert told["effective"]["do_sample"] is False
    assert told["finish_reason"] in ("length", "eos")
    figures = {"prompt_tokens", "new_tokens", "ttft_s", "tokens_per_s", "reused_tokens"}
    assert set(told["stats"]) == figures | {"drafted_by", "passes", "gain"}
    assert told["seed"] == 7


def test_a_draft_that_is_not_there_is_named_and_nothing_is_answered(fader: Any) -> None:
    told = fader("ask", "hello", "--draft", "/no/such/draft", code=1)
    assert "/no/such/draft" in told.stderr
    assert told.stdout == ""


def test_a_draft_takes_part(fader: Any, tiny_folder: Path) -> None:
    assert asked(fader, "hello", "--draft", str(tiny_folder))["stats"]["drafted_by"] == str(tiny_folder)


def test_ask_streams_plain_text_and_goes_on_with_a_conversation(fader: Any) -> None:
    first = asked(fader, "hello")
    plain = fader("ask", "again", "--conversation", first["conversation_id"], "-p", "max_new_tokens=4", "--seed", "1")
    assert plain.stdout.endswith("\n")
    found = json.loads(fader("search", "hello", "--json").stdout)
    assert [hit["conversation_id"] for hit in found] == [first["conversation_id"]]


@pytest.mark.parametrize(
    ("given", "named"),
    [("top_p=1.5", "top_p"), ("top_k=many", "top_k"), ("nonsense=1", "nonsense"), ("temperature=NaN", "temperature")],
)
def test_refused_parameters_exit_with_2_and_are_named(fader: Any, given: str, named: str) -> None:
    result = fader("ask", "hello", "-p", given, code=2)
    assert named in result.stderr


def test_an_empty_message_is_refused(fader: Any) -> None:
    assert "empty" in fader("ask", "  ", code=2).stderr


def test_a_model_that_is_not_there_fails_with_1_and_says_so(fader: Any, tmp_path: Path) -> None:
    result = fader("ask", "hello", "--model", str(tmp_path / "nowhere"), code=1)
    assert "no model at" in result.stderr


def test_params_lists_all_62_and_ours(fader: Any) -> None:
    rows = json.loads(fader("params", "--json").stdout)
    assert len([row for row in rows if row["group"] != "Fader"]) == 62
    keys = {"name", "group", "type", "off", "minimum", "maximum", "step", "applies_when", "help", "source"}
    assert all(set(row) == keys for row in rows)
    assert "top_k" in fader("params").stdout


def test_a_run_replays_identically_from_the_command_line(fader: Any) -> None:
    told = asked(fader, "hello", "-p", "do_sample=true", "-p", "temperature=1.8")
    replayed = json.loads(fader("replay", told["run_id"], "--json").stdout)
    assert replayed["identical"] is True
    assert replayed["first_divergence"] is None
    assert replayed["differences"] == []


def test_a_run_that_is_not_there_is_refused(fader: Any) -> None:
    fader("replay", "0" * 32, code=2)


def test_everything_goes_out_and_comes_back_once(fader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(fader, "hello")
    file = tmp_path / "all.json"
    fader("export", str(file))
    monkeypatch.setenv("FADER_HOME", str(tmp_path / "other"))
    assert json.loads(fader("import", str(file), "--json").stdout)["imported"] == 1
    again = json.loads(fader("import", str(file), "--json").stdout)
    assert (again["imported"], again["skipped"]) == (0, 1)
    assert "skipped" in fader("import", str(file)).stdout


def test_a_backup_is_put_back(fader: Any, tmp_path: Path) -> None:
    asked(fader, "hello")
    copy = tmp_path / "copy.db"
    fader("backup", str(copy))
    asked(fader, "later")
    fader("restore", str(copy))
    assert json.loads(fader("search", "later", "--json").stdout) == []
    assert len(json.loads(fader("search", "hello", "--json").stdout)) == 1


def test_models_load_tells_the_truth(fader: Any, tiny_folder: Path) -> None:
    report = json.loads(fader("models", "load", str(tiny_folder), "--json").stdout)
    assert set(report) >= {
        "resident_bytes",
        "bytes_by_dtype",
        "share_4bit",
        "linear_share_4bit",
        "peak_bytes",
        "seconds",
    }
    assert report["linear_share_4bit"] == 1.0
    assert "uint8" in report["bytes_by_dtype"]
    assert isinstance(json.loads(fader("models", "list", "--json").stdout), list)
    assert "verdict" in json.loads(fader("models", "estimate", str(tiny_folder), "--json").stdout)


def test_doctor_checks_what_matters(fader: Any) -> None:
    checks = {check["name"]: check for check in json.loads(fader("doctor", "--json").stdout)}
    assert {"python", "torch", "data folder", "database", "built-in model"} <= set(checks)
    assert all(check["ok"] for check in checks.values())
