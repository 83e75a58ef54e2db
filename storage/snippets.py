"""A few words around what was found in a text, with marks: what a contentless index can't give by itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from storage.index import RUN

OPEN, CLOSE = "\x02", "\x03"
_MARKS = str.maketrans("", "", OPEN + CLOSE)
_WIDTH = 160
_BEFORE = 48
_BLANKS = re.compile(r"\s+")


def snippet(text: str, words: Iterable[str]) -> str:
    """About 160 characters of ``text`` around the first match of one of ``words``, on one line, each match between the marks;
    the beginning when nothing matches."""
    text = text.translate(_MARKS)
    pattern = _pattern(tuple(words))
    first = _first(text, pattern) if pattern else 0
    start = _start(text, first)
    end = min(len(text), start + _WIDTH)
    line = _BLANKS.sub(" ", _marked(text[start:end], pattern)).strip()
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"


def _first(text: str, pattern: re.Pattern[str]) -> int:
    """Where the first match begins, 0 without one. Accents are looked at only when nothing matches with them: that is slow."""
    lowered = text.lower()
    found = pattern.search(lowered) if len(lowered) == len(text) else None
    found = found or pattern.search("".join(map(_fold, text)))
    return found.start() if found else 0


def _start(text: str, match: int) -> int:
    """Where to begin: at a word, a little before the match."""
    if match <= _BEFORE:
        return 0
    blank = _BLANKS.search(text, match - _BEFORE, match)
    return blank.end() if blank else match - _BEFORE // 4


def _marked(text: str, pattern: re.Pattern[str] | None) -> str:
    marked, last = "", 0
    folded = text.lower() if text.isascii() else "".join(map(_fold, text))
    for match in pattern.finditer(folded) if pattern else ():
        marked += text[last : match.start()] + OPEN + text[match.start() : match.end()] + CLOSE
        last = match.end()
    return marked + text[last:]


@lru_cache(maxsize=64)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    parts = [part for word in words for part in _parts(word)]
    longest_first = sorted(set(parts), key=len, reverse=True)
    return re.compile("|".join(longest_first)) if longest_first else None


def _parts(word: str) -> Iterable[str]:
    folded = "".join(map(_fold, word))
    for run in RUN.findall(folded):
        yield re.escape(run)
    for piece in RUN.sub(" ", folded).split():
        letters = re.findall(r"[^\W_]+", piece)
        if letters:
            yield r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, letters))


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    """One character without accents, in lower case and normal width; always exactly one."""
    plain = unicodedata.normalize("NFKD", char)[:1].lower()
    return plain if len(plain) == 1 else char
