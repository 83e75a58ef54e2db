"""What a reply's figures say."""

from __future__ import annotations

import pytest

from app.conversation import Run, RunStatus, Stats
from ui.views import run_view


def figures(stats: Stats) -> dict[str, tuple[str, str]]:
    told = run_view(Run("r", "m", status=RunStatus.DONE, stats=stats))["stats"]
    return {figure["name"]: (figure["text"], figure["title"]) for figure in told}


@pytest.mark.parametrize(
    ("told", "text", "title"),
    [
        ("fast step", "fast step", "own step"),
        ("library (several replies at once)", "library’s forward", ": several replies at once"),
        ("library (not with gelu)", "library’s forward", ": not with gelu"),
    ],
)
def test_who_computed_the_tokens(told: str, text: str, title: str) -> None:
    run = Run("r", "m", status=RunStatus.DONE, model_fingerprint={"decode": told})
    (figure,) = [figure for figure in run_view(run)["stats"] if figure["name"] == "decode"]
    assert figure["text"] == text
    assert title in figure["title"]


def test_what_guesses_gained() -> None:
    text, title = figures(Stats(new_tokens=120, drafted_by="prompt lookup", passes=70, gain=1.62))["draft"]
    assert text == "1.6× by prompt lookup"
    assert title.startswith("120 tokens in 70 passes of the model")


def test_what_prompt_lookup_would_have_gained() -> None:
    text, title = figures(Stats(new_tokens=120, passes=70, gain=1.62))["draft"]
    assert text == "1.6× possible with prompt lookup"
    assert "(prompt_lookup_num_tokens)" in title


@pytest.mark.parametrize(
    "stats", [Stats(new_tokens=9), Stats(new_tokens=9, passes=9, gain=1.02), Stats(new_tokens=9, passes=12, gain=0.9)]
)
def test_nothing_is_said_where_prompt_lookup_would_not_have_paid(stats: Stats) -> None:
    assert "draft" not in figures(stats)


def test_a_loss_is_told_too() -> None:
    assert figures(Stats(new_tokens=9, drafted_by="tiny", passes=9, gain=0.94))["draft"][0] == "0.9× by tiny"
