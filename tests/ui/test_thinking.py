"""Thinking is told from the answer by the marks models write, in every way they are written."""

from __future__ import annotations

import pytest

from ui.thinking import split_thinking


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("just an answer", [("answer", "just an answer")]),
        ("<think>a</think>b", [("thinking", "a"), ("answer", "b")]),
        ("<think>\na\n</think>\n\nb", [("thinking", "a\n"), ("answer", "b")]),
        ("opened by the prompt</think>b", [("thinking", "opened by the prompt"), ("answer", "b")]),
        ("<think>still thinking", [("thinking", "still thinking")]),
        ("a<thinking>b</thinking>c", [("answer", "a"), ("thinking", "b"), ("answer", "c")]),
        ("<think></think>b", [("answer", "b")]),
        ("<think>a <think> b</think>c", [("thinking", "a <think> b"), ("answer", "c")]),
        ("<think>a</think>b</think>c", [("thinking", "a"), ("answer", "b</think>c")]),
    ],
)
def test_parts(text: str, parts: list[tuple[str, str]]) -> None:
    assert split_thinking(text) == parts
