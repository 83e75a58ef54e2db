"""Text arrives exactly and without flashes: whatever the tokens, streamed pieces joined are the decoding of all of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from app.engine.encoding import special_ids
from app.engine.text import LONGEST, IncrementalDecoder, StopFilter, ThinkingSplitter, split_thinking
from tests.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
SPECIAL = special_ids(TOKENIZER)
SAMPLES = [
    "héllo wörld",
    "👩‍👩‍👧‍👦 and 🇩🇪",
    "नमस्ते é",
    "你好，世界。",
    "שלום עולם",
    "https://example.org/" + "a" * 80,
    "if x:\n\treturn\n",
]


def streamed(ids: list[int], context: list[int] | None = None) -> list[str]:
    decoder = IncrementalDecoder(TOKENIZER, SPECIAL, context or ())
    return [*(decoder.push(i) for i in ids), decoder.flush()]


def decoded(ids: list[int], tokenizer: PreTrainedTokenizerBase = TOKENIZER) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


@pytest.mark.parametrize("text", SAMPLES)
def test_streamed_text_is_the_decoded_text_without_replacement_characters(text: str) -> None:
    pieces = streamed(TOKENIZER(text)["input_ids"])
    assert "".join(pieces) == text
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)


def test_ascii_arrives_with_every_token() -> None:
    ids = TOKENIZER("some words without newline")["input_ids"]
    assert all(streamed(ids)[:-1])


@pytest.mark.parametrize("text", SAMPLES)
def test_every_character_is_there_with_the_token_that_completes_it(text: str) -> None:
    ids = TOKENIZER(text)["input_ids"]
    pieces = streamed(ids)
    for count in range(1, len(ids) + 1):
        assert "".join(pieces[:count]) == decoded(ids[:count]).rstrip("\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("what", ["no line end", "bad bytes", "an emoji after the other"])
def test_work_per_token_is_bounded(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    byte = TOKENIZER.convert_tokens_to_ids(TOKENIZER.tokenize("é")[0])
    ids = {
        "no line end": TOKENIZER("word")["input_ids"] * 500,
        "bad bytes": [byte] * 2_000,
        "an emoji after the other": TOKENIZER("🚀" * 500)["input_ids"],
    }[what]
    longest, decode = 0, TOKENIZER.decode

    def counting(these: list[int], **options: bool) -> str:
        nonlocal longest
        longest = max(longest, len(these))
        return str(decode(these, **options))

    monkeypatch.setattr(TOKENIZER, "decode", counting)
    text = "".join(streamed(ids))
    assert longest < 3 * LONGEST
    monkeypatch.undo()
    assert text == decoded(ids)


@given(st.text(max_size=40))
def test_any_unicode_streams_exactly(text: str) -> None:
    assert "".join(streamed(TOKENIZER(text)["input_ids"])) == decoded(TOKENIZER(text)["input_ids"])


BYTES: list[int] = TOKENIZER("é你🚀")["input_ids"]
"""Tokens that are parts of characters."""


@given(st.lists(st.one_of(st.integers(0, len(TOKENIZER) - 1), st.sampled_from(BYTES)), max_size=90))
def test_any_sequence_of_tokens_streams_exactly_bad_bytes_and_special_tokens_included(ids: list[int]) -> None:
    assert "".join(streamed(ids)) == decoded(ids)


@given(st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=30), st.text(max_size=10))
def test_a_reply_that_goes_on_streams_only_what_is_new(ids: list[int], before: str) -> None:
    context = TOKENIZER(before)["input_ids"]
    assert "".join(streamed(ids, context)) == decoded([*context, *ids])[len(decoded(context)) :]


ODD = "ab<|>你"


@given(
    st.text(ODD, max_size=30),
    st.lists(st.text(ODD, min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_stop_strings_cut_the_text_and_never_flash(text: str, stops: list[str], seed: int) -> None:
    pieces, rest, shown = [], text, ""
    chance = random.Random(seed)
    while rest:
        size = chance.randint(1, 3)
        pieces.append(rest[:size])
        rest = rest[size:]
    stop = StopFilter(stops)
    for piece in pieces:
        shown += stop.push(piece)
        assert not any(s in shown for s in stops)
    shown += stop.flush()
    complete = [(text.index(s) + len(s), text.index(s)) for s in stops if s in text]
    assert shown == (text[: min(complete)[1]] if complete else text)
    assert (stop.hit is not None) == bool(complete)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("plain", [("answer", "plain")]),
        ("<think>hm</think>yes", [("mark", "<think>"), ("thinking", "hm"), ("mark", "</think>"), ("answer", "yes")]),
        ("hm</think>yes", [("thinking", "hm"), ("mark", "</think>"), ("answer", "yes")]),
        ("use <think> in HTML", [("answer", "use <think> in HTML")]),
        ("<think>never closed", [("mark", "<think>"), ("thinking", "never closed")]),
    ],
)
def test_thinking_is_told_from_the_answer(content: str, parts: list[tuple[str, str]]) -> None:
    assert split_thinking(content) == parts


@given(st.text(alphabet="<think>/ab ", max_size=40))
def test_thinking_parts_joined_are_the_content_also_character_by_character(content: str) -> None:
    assert "".join(text for _, text in split_thinking(content)) == content
    splitter = ThinkingSplitter()
    parts = [part for c in content for part in splitter.push(c)] + [*splitter.flush()]
    assert "".join(text for _, text in parts) == content
    assert not any("</think>" in text for kind, text in parts if kind == "thinking")
