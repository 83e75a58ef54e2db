"""Markdown of replies as safe HTML, block by block: no HTML of the model's gets through, no image or script is fetched.

The page shows a reply as the list of its top-level blocks, so that one being written replaces only its last block
(ui/streaming.py) and looks the same as when it is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from mdit_py_plugins.tasklists import tasklists_plugin

from ui.code_blocks import code_block
from ui.formulas import formulas_plugin


@lru_cache(maxsize=1)
def markdown() -> MarkdownIt:
    """The one parser. Reference definitions are off: one at the end of a reply would change blocks long shown."""
    md = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 40})
    md.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    md.use(formulas_plugin).use(tasklists_plugin)
    md.add_render_rule("fence", _fence)
    md.add_render_rule("code_block", _fence)
    md.add_render_rule("link_open", _link_open)
    md.add_render_rule("image", _image)
    md.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>\n')
    md.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return md


def _fence(_self: object, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
    token = tokens[idx]
    words = token.info.split()
    first, end = token.map or [0, 0]
    is_open = token.type == "fence" and end - first < len(token.content.rstrip("\n").split("\n")) + 2
    return code_block(token.content, words[0] if words else "", is_open=is_open)


def _link_open(_self: object, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
    href = escape(str(tokens[idx].attrGet("href") or ""))
    return f'<a href="{href}" target="_blank" rel="noopener noreferrer nofollow">'


def _image(_self: object, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
    """A picture inside the text is shown; one elsewhere becomes a link, because nothing is fetched without a click."""
    source = escape(str(tokens[idx].attrGet("src") or ""))
    text = escape(tokens[idx].content)
    if source.startswith("data:image/"):
        return f'<img src="{source}" alt="{text}">'
    return f'<a href="{source}" target="_blank" rel="noopener noreferrer nofollow">{text or source}</a>'


def normal(text: str) -> str:
    r"""Line ends as ``\n``. A ``\r`` at the very end waits for what follows it."""
    return text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """The top-level blocks of Markdown with normal line ends: the line each begins on, and its HTML."""
    md = markdown()
    env: EnvType = {}
    tokens = md.parse(text, env)
    start = 0
    for index, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            opening = tokens[start]
            yield (opening.map or [0, 0])[0], md.renderer.render(tokens[start : index + 1], md.options, env).strip()
            start = index + 1


@lru_cache(maxsize=512)
def render_blocks(text: str) -> tuple[str, ...]:
    """The HTML of every top-level block of a whole reply."""
    return tuple(html for _, html in blocks(normal(text)))
