"""A conversation's title from its first message, without asking a model."""

from __future__ import annotations

import re

TITLE_LENGTH = 60


def suggest_title(text: str) -> str:
    """The first line that says something, without Markdown signs, cut at a word (or a character where there are no spaces)."""
    lines = (re.sub(r"[#>*_`~\[\]]+", "", line).strip() for line in text.splitlines())
    line = re.sub(r"\s+", " ", next((line for line in lines if re.search(r"\w", line)), text.strip()))
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[: TITLE_LENGTH - 1]
    words = cut.rsplit(" ", 1)[0]
    return (words if len(words) > TITLE_LENGTH // 2 else cut).rstrip(" ,;:.-") + "…"
