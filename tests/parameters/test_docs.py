"""docs/parameters.md says what the table says."""

from __future__ import annotations

from app.parameters.docs import TARGET, page
from app.parameters.table import TABLE


def test_the_generated_page_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run `python -m app.parameters.docs`"


def test_every_row_has_its_section() -> None:
    text = page()
    assert all(f"### `{row.name}`\n\n{row.help}\n" in text for row in TABLE)
