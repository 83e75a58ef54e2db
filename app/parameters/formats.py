"""Structured output: what the user typed as a grammar, checked before anything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.conversation import Json

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

COMPACT: JsonCompileOptions = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON as Python prints it on one line: a small model left free to write blanks can go on with them for ever."""


def grammar(wanted: Mapping[str, Json]) -> str:
    """The grammar of an ``output_format`` in llguidance's form."""
    from llguidance import LLMatcher

    if wanted["kind"] == "regex":
        return LLMatcher.grammar_from_regex(wanted["pattern"])
    if wanted["kind"] == "choices":
        return LLMatcher.grammar_from_lark("start: " + " | ".join(map(_quoted, wanted["choices"])))
    schema = {} if wanted["schema"] is True else wanted["schema"]
    return LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults=COMPACT)


def complaint(wanted: Mapping[str, Json]) -> str | None:
    """What is wrong with an ``output_format``, in the grammar compiler's words; None when it can be followed."""
    from llguidance import LLMatcher

    if wanted.get("schema") is False:
        return "schema: false is a schema that no text satisfies"
    failed, messages = LLMatcher.validate_grammar_with_warnings(grammar(wanted))
    return f"{_FIELDS[wanted['kind']]}: {_first_lines(messages[0])}" if failed else None


_FIELDS: Mapping[str, str] = {"json_schema": "schema", "regex": "pattern", "choices": "choices"}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _first_lines(message: str) -> str:
    """The compiler draws the place below its sentence; one line is enough beside a control."""
    return " ".join(message.split("\n   1 |", maxsplit=1)[0].split())
