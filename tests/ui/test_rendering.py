"""Replies as HTML: safe whatever a model writes, and the same while streaming as afterwards."""

from __future__ import annotations

import random
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ui.formulas import formula
from ui.rendering import render_blocks
from ui.streaming import StreamRenderer

ALLOWED = set(
    """p br h1 h2 h3 h4 h5 h6 ul ol li blockquote hr strong em s a code pre div span button table thead tbody tr th td input img
    math mrow mi mn mo mtext mspace ms mfrac msqrt mroot mstyle merror mpadded mphantom msub msup msubsup munder mover munderover
    mmultiscripts mprescripts none mtable mtr mtd mlabeledtr menclose""".split()  # noqa: SIM905  (a list of words)
)


class Inspector(HTMLParser):
    """Fails on any tag or attribute through which a reply could run or fetch something."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, f"<{tag}> got through"
        for name, value in attrs:
            assert not name.startswith("on"), f"{name} got through"
            assert name not in {"style", "srcset", "formaction"}
            if name in {"href", "src", "xlink:href"}:
                assert value is not None
                assert not value.lower().lstrip().startswith(("javascript:", "vbscript:", "file:", "data:text")), value
            if name == "src":
                assert value is not None
                assert value.startswith("data:image/")


def inspected(text: str) -> str:
    html = "".join(render_blocks(text))
    inspector = Inspector()
    inspector.feed(html)
    inspector.close()
    return html


ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "![x](javascript:alert(1))",
    "![x](https://tracker.example/pixel.png)",
    '[x](https://a.example "onmouseover=alert(1)")',
    '[x](https://a.example/"onmouseover="alert(1))',
    '<https://a.example/"><script>>',
    "`<script>`",
    "```<script>\n</code></pre><script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    r"$\text{<script>alert(1)</script>}$",
    r"$\href{javascript:alert(1)}{x}$",
    r"$\style{background:url(//a.example)}{x}$",
    r"$\color{red\" onload=\"alert(1)}{x}$",
    r"$\unicode{60}script>$",
    r"\(</span><img src=x onerror=alert(1)>\)",
    r"\[" + "\n<svg onload=alert(1)>\n" + r"\]",
    "$&lt;script&gt;alert(1)&lt;/script&gt;$",
    "| a |\n|---|\n| <script>alert(1)</script> |",
    "- [ ] <iframe src=//a.example>",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_runs_and_nothing_is_fetched(attack: str) -> None:
    inspected(attack)


@given(
    st.lists(
        st.sampled_from([*ATTACKS, "\n", "\n\n", "> ", "- ", "```\n", "**", "$", "\\(", "\\)", "$$\n", "<", '"', "&"]),
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_no_mixture_of_attacks_gets_through(parts: list[str]) -> None:
    inspected("".join(parts))


@pytest.mark.parametrize(
    "latex",
    [r"\newcommand{\a}{\a\a}\a", r"\def\a{\a}\a", "{" * 3000, "x" * 100_000, r"\begin{matrix}", r"\frac{", "\\"],
)
def test_a_formula_that_cannot_be_read_is_shown_as_typed(latex: str) -> None:
    shown = formula(latex, block=True)
    assert "<code>" in shown or "<math" in shown
    assert len(shown) < len(latex) * 10 + 1000


def test_formulas_in_all_four_notations() -> None:
    for text in (
        r"$\frac{1}{2}$",
        r"\(\frac{1}{2}\)",
        "$$\n\\frac{1}{2}\n$$",
        "\\[\n\\frac{1}{2}\n\\]",
        r"so $$\frac{1}{2}$$ it is",
    ):
        assert "<mfrac>" in inspected(text), text


def test_money_is_no_formula() -> None:
    assert "<math" not in inspected("It costs $5 today and $6 tomorrow.")


def test_code_is_coloured_by_classes_and_can_be_copied() -> None:
    html = inspected("```python\ndef f(): pass\n```")
    assert '<span class="hl-k">def</span>' in html
    assert 'class="copy-code"' in html


def test_code_of_an_unknown_language_is_plain() -> None:
    assert "a &lt; b" in inspected("```nonesuch\na < b\n```")


def test_long_code_is_coloured_once_its_end_is_there() -> None:
    lines = "x = 1\n" * 1_500
    assert "hl-" not in inspected("```python\n" + lines)
    assert "hl-" in inspected("```python\n" + lines + "```")
    assert "hl-" not in inspected("```python\n" + lines * 10 + "```")


def test_links_open_elsewhere_and_tell_nothing() -> None:
    assert 'rel="noopener noreferrer nofollow"' in inspected("[x](https://a.example)")


def test_single_line_ends_are_kept() -> None:
    assert inspected("one\ntwo").count("<br") == 1


PIECES = [
    "- a\n", "- [ ] b\n", "\n", "\n", "1. x\n", "2. y\n", "  deep\n", "   text", "para\n", "---\n", "===\n", "```\n", "```python\n", "$$\n",
    "\\[\n", "\\]\n", "|a|b|\n", "|-|-|\n", "> q\n", "\\(", "\\)", "$", "*", "**", "`", "# h\n", "    code\n", "\t", "\r\n", "\r", "<b>",
    "![a](b)", "[l](http://a)", "~~", "~~~\n", "* * *\n", "word ", "\n\n", "- \n", "+ p\n", "\x00", "é", "🙂", "1)", "_",
    "[x]: http://foo\n", "[x]", "&amp;", "\\", "<think>", "$$ x $$\n", "\\[ x \\]\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=16), st.randoms(use_true_random=False))
@settings(max_examples=250, deadline=None)
def test_a_reply_looks_the_same_at_every_moment_as_when_it_is_finished(parts: list[str], rng: random.Random) -> None:
    text = "".join(parts)
    renderer = StreamRenderer()
    at = 0
    while at < len(text):
        step = rng.randint(1, 3)
        before = list(renderer.blocks)
        first = renderer.feed(text[at : at + step])
        at += step
        assert renderer.blocks[:first] == before[:first], "a block that was said to be unchanged has changed"
        assert tuple(renderer.blocks) == render_blocks.__wrapped__(text[:at])


def test_work_per_piece_does_not_grow_with_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    from ui import rendering, streaming

    def counted(text: str) -> object:
        seen.append(len(text))
        return streaming_blocks(text)

    streaming_blocks = rendering.blocks
    monkeypatch.setattr(streaming, "blocks", counted)
    renderer = StreamRenderer()
    for _ in range(300):
        renderer.feed("A paragraph of some words.\n")
        renderer.feed("\n")
    assert max(seen) < 100
    assert len(renderer.blocks) == 300
