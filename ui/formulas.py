r"""LaTeX formulas in replies as MathML; the output is rebuilt from a list of allowed tags, so no formula can carry a script.

``\(…\)`` and ``\[…\]`` are read here; ``$…$`` and ``$$…$$`` by mdit-py-plugins. What latex2mathml can't read is shown as typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import Converter
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from mdit_py_plugins.dollarmath import dollarmath_plugin

LONGEST = 4_000
"""Formulas above this many characters are shown as typed: converting them would hold up the reply."""

_MACROS = re.compile(r"\\(?:re|provide)?newcommand|\\providecommand|\\def\b|\\let\b|\\gdef\b|\\edef\b")
_CLOSING = {"$$": "$$", "\\[": "\\]"}
_TAGS = frozenset(
    """math mrow mi mn mo mtext mspace ms mfrac msqrt mroot mstyle merror mpadded mphantom msub msup msubsup munder mover
    munderover mmultiscripts mprescripts none mtable mtr mtd mlabeledtr menclose""".split()  # noqa: SIM905  (a list of words)
)
_ATTRIBUTES = frozenset(
    """xmlns display mathvariant stretchy fence separator form lspace rspace minsize maxsize symmetric largeop movablelimits
    accent accentunder linethickness width height depth voffset displaystyle scriptlevel columnalign rowalign columnlines
    rowlines columnspacing rowspacing frame notation mathcolor mathbackground mathsize""".split()  # noqa: SIM905  (the same)
)
_PLAIN_VALUE = re.compile(r"[\w#%.,+\-:/ ]*\Z")


@lru_cache(maxsize=512)
def formula(latex: str, *, block: bool) -> str:
    """The HTML of one formula: a ``math`` element, or the escaped source where it can't be converted."""
    wrapped = f'<span class="math {"block" if block else "inline"}">{{}}</span>'
    if len(latex) > LONGEST or _MACROS.search(latex):
        return wrapped.format(_as_typed(latex))
    try:
        element = Converter(display="block" if block else "inline").convert_to_element(latex)
        return wrapped.format(tostring(_allowed(element), encoding="unicode"))
    except Exception:  # noqa: BLE001  (latex2mathml raises a dozen kinds; whatever it is, the source is still readable)
        return wrapped.format(_as_typed(latex))


def _as_typed(latex: str) -> str:
    return f"<code>{escape(latex)}</code>"


def _allowed(element: Element) -> Element:
    """A copy with known tags and attributes only; texts are unescaped once, so that serializing escapes them for good."""
    copy = Element(element.tag if element.tag in _TAGS else "mrow")
    copy.text = unescape(element.text or "")
    copy.tail = unescape(element.tail or "")
    for name, value in element.attrib.items():
        if name in _ATTRIBUTES and (name == "xmlns" or _PLAIN_VALUE.match(value)):
            copy.set(name, value)
    copy.extend(_allowed(child) for child in element)
    return copy


def formulas_plugin(md: MarkdownIt) -> None:
    """Read all four ways of writing a formula and render them with :func:`formula`."""
    dollarmath_plugin(md, allow_labels=False, allow_space=False, allow_digits=False, double_inline=True)
    md.disable("math_block")
    md.inline.ruler.before("escape", "math_brackets", _inline_brackets)
    md.block.ruler.before("fence", "math_display", _display)
    md.add_render_rule("math_inline", _render)
    md.add_render_rule("math_inline_double", _render)
    md.add_render_rule("math_block", _render)


def _render(_self: object, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
    token = tokens[idx]
    if token.meta.get("open"):
        return f'<span class="math block">{_as_typed(token.content.strip())}</span>'
    return formula(token.content.strip(), block=token.type != "math_inline")


def _inline_brackets(state: StateInline, silent: bool) -> bool:  # noqa: FBT001  (markdown-it's rule signature)
    opening = state.src[state.pos : state.pos + 2]
    if opening not in ("\\(", "\\["):
        return False
    end = state.src.find("\\)" if opening == "\\(" else "\\]", state.pos + 2, state.posMax)
    content = state.src[state.pos + 2 : end].strip() if end >= 0 else ""
    if not content:
        return False
    if not silent:
        token = state.push("math_inline" if opening == "\\(" else "math_inline_double", "math", 0)
        token.content = content
    state.pos = end + 2
    return True


def _display(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    r"""A line that begins with ``$$`` or ``\[`` up to the one that ends with its counterpart.

    A blank line before that means it is no formula. Without either, all that is there belongs to a formula still being written:
    decided otherwise, its lines would become other blocks that a reply on its way shows as final.
    """
    first = _line(state, start)
    closing = _CLOSING.get(first[:2])
    if closing is None or state.is_code_block(start) or closing in first[2:].rstrip()[:-2]:
        return False
    lines = [first[2:]]
    while not lines[-1].rstrip().endswith(closing):
        number = start + len(lines)
        if number >= end:
            closing = ""
            break
        if not (line := _line(state, number)).strip():
            return False
        lines.append(line)
    if not silent:
        lines[-1] = lines[-1].rstrip().removesuffix(closing)
        token = state.push("math_block", "math", 0)
        token.block, token.content, token.map = True, "\n".join(lines), [start, start + len(lines)]
        token.meta = {"open": not closing}
        state.line = start + len(lines)
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]
