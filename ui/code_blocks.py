"""Code blocks in replies: highlighted with pygments by CSS classes (one set of colours per theme), with a copy button each."""

from __future__ import annotations

from functools import lru_cache
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

LONGEST_HIGHLIGHTED = 30_000
"""Code above this many characters is shown without colours: highlighting it would hold up the page."""

CLASS_PREFIX = "hl-"


LONGEST_OPEN = 6_000
"""The same for code whose end is not there yet: it is rendered again with every piece of text."""


def code_block(code: str, language: str = "", *, is_open: bool = False) -> str:
    """HTML of a code block; ``language`` is the fence's first word and may be unknown, ``is_open`` says that its end is missing."""
    longest = LONGEST_OPEN if is_open else LONGEST_HIGHLIGHTED
    name = escape(language[:40])
    label = name or "text"
    return (
        f'<div class="code-block"><div class="code-head"><span>{label}</span>'
        '<button type="button" class="copy-code" aria-label="Copy code">Copy</button></div>'
        f'<pre tabindex="0"><code data-language="{name}">{_coloured(code, language, longest)}</code></pre></div>\n'
    )


def _coloured(code: str, language: str, longest: int) -> str:
    lexer = _lexer(language.lower()) if language and len(code) <= longest else None
    if lexer is None:
        return escape(code, quote=False)
    return highlight(code, lexer, HtmlFormatter(nowrap=True, classprefix=CLASS_PREFIX))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
