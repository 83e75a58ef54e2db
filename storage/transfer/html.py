"""A web page of its own: the branch on display, safe to open whatever a model wrote.

Raw HTML in a message is shown as text, links other than to web and mail addresses are dropped, and a Content-Security-Policy
forbids every script and every request, so that nothing runs and nothing is fetched even if a tag slipped through.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape

from markdown_it import MarkdownIt

from app.conversation import Conversation, Message
from storage.transfer.markdown import speaker

_STYLE = """
body{font:16px/1.6 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1d1d1f;background:#fff}
article{margin:1.5rem 0;padding:.25rem 1rem;border-left:3px solid #d2d2d7}article.user{border-color:#0a66c2}
h2{margin-top:3rem}h3{font-size:.85rem;color:#5c5c62;margin:.5rem 0}pre{overflow:auto;padding:.75rem;background:#f5f5f7}
table{border-collapse:collapse}td,th{border:1px solid #d2d2d7;padding:.25rem .5rem}
@media(prefers-color-scheme:dark){body{color:#f5f5f7;background:#1d1d1f}pre{background:#2c2c2e}h3{color:#a1a1a6}}
"""

HEAD = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Conversations from Fader</title>
<style>{_STYLE}</style>
</head>
<body>
"""
TAIL = "</body>\n</html>\n"


def write(conversation: Conversation, shown: Sequence[Message]) -> str:
    """One conversation as a section."""
    title = escape(" ".join(conversation.title.split()) or "Untitled")
    parts = [f"<section>\n<h2>{title}</h2>\n<p><time>{conversation.created_at:%Y-%m-%d %H:%M} UTC</time></p>\n"]
    if conversation.system_prompt:
        parts.append(_article("system", "System prompt", conversation.system_prompt))
    parts += [_article(message.role.value, speaker(message), message.content) for message in shown]
    return "".join(parts) + "</section>\n"


def _article(kind: str, who: str, text: str) -> str:
    return f'<article class="{kind}">\n<h3>{escape(who)}</h3>\n{_renderer().render(text)}</article>\n'


@cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
