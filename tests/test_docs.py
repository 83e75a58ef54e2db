"""The example in docs/api.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.models.tiny import tiny_llama

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def test_the_example_of_the_api_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FADER_MODEL", str(tiny_llama(tmp_path / "tiny")))
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    exec(compile(found[1], str(PAGE), "exec"), {})
    assert "Fader's default" in capsys.readouterr().out
