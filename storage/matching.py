"""A query as FTS5 expressions: every piece of typed text is quoted, so that none can act as an operator."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from app.conversation import EMPTY, Json
from storage.index import RUN, document_flag, normal
from storage.query import Query, known
from storage.rows import load_mapping

_SHORTEST_BEGINNING = 2
"""A single letter is a word in messages, not a beginning: as such it would match nearly all of them, and slowly."""

_LISTABLE = 500
"""Up to so many sets of parameters are named in the expression; more are compared hit by hit."""


@dataclass(frozen=True, slots=True)
class Match:
    """FTS5 terms, all of which must hold: ``titles`` for titles, ``words`` and ``filters`` for messages.

    ``literal``: case-folded texts that must occur as they are, because the index knows only their parts. ``documents``: which
    documents a message's run may have, by column of runs; ``listed`` says that the filters see to that.
    """

    titles: tuple[str, ...]
    words: tuple[str, ...]
    filters: tuple[str, ...]
    literal: tuple[str, ...] = ()
    documents: Mapping[str, frozenset[int]] = EMPTY
    listed: bool = True

    @property
    def impossible(self) -> bool:
        """Whether no run has what is wanted."""
        return not all(self.documents.values())

    @property
    def title(self) -> str:
        """The expression for titles; empty when there is no word to look for."""
        return " AND ".join(self.titles)

    @property
    def message(self) -> str:
        """The expression for messages."""
        return " AND ".join(self.words + self.filters)

    def occurs_in(self, text: str) -> bool:
        """Whether the literal texts occur."""
        return not self.literal or all(part in normal(text).casefold() for part in self.literal)


def match(db: sqlite3.Connection, query: Query) -> Match:
    """The expressions of a query; parameter conditions are looked up among the parameters that runs really had."""
    pieces = [piece for word in query.words for piece in _pieces(word)]
    last = len(pieces) - 1
    titles = [term for place, piece in enumerate(pieces) for term in _terms(piece, beginning=place == last)]
    words = [
        term
        for place, piece in enumerate(pieces)
        for term in _terms(piece, beginning=place == last and len(piece) >= _SHORTEST_BEGINNING)
    ]
    literal = tuple(piece.casefold() for piece in pieces if RUN.match(piece) and len(piece) > 2)
    documents = _documents(db, query)
    listed = all(len(keys) <= _LISTABLE for keys in documents.values())
    filters = [f"flags : {quote(flag)}" for flag in query.flags]
    if documents and not listed:
        filters.append('flags : "roleassistant"')
    elif all(documents.values()):
        filters += [_any_of(column, keys) for column, keys in documents.items()]
    return Match(tuple(titles), tuple(words), tuple(filters), literal, documents, listed)


def quote(text: str) -> str:
    """Text as an FTS5 string."""
    return '"' + text.replace('"', '""') + '"'


def _pieces(word: str) -> Iterator[str]:
    """A word cut where a script without blanks begins or ends; pieces without a letter are left out."""
    last = 0
    for run in RUN.finditer(word):
        yield from filter(known, (word[last : run.start()], run.group()))
        last = run.end()
    yield from filter(known, (word[last:],))


def _terms(piece: str, *, beginning: bool) -> Iterator[str]:
    if not RUN.match(piece):
        yield f"text : {quote(piece)}{' *' if beginning else ''}"
    elif len(piece) == 1:
        yield f"pairs : {quote(piece)}"
    else:
        for pair in dict.fromkeys(map("".join, pairwise(piece))):
            yield f"pairs : {quote(pair)}"


def _any_of(column: str, keys: frozenset[int]) -> str:
    return f"flags : ({' OR '.join(quote(document_flag(column, key)) for key in sorted(keys))})"


def _documents(db: sqlite3.Connection, query: Query) -> Mapping[str, frozenset[int]]:
    """The documents that fulfil the query's filters, by column of runs."""
    wanted: dict[str, Callable[[Mapping[str, Json]], bool]] = {}
    if query.conditions:
        wanted["effective"] = query.holds
    if query.models:
        wanted["fingerprint"] = query.names
    return {
        column: frozenset(key for key, body in db.execute(_distinct(column)) if holds(load_mapping(body)))
        for column, holds in wanted.items()
    }


def _distinct(column: str) -> str:
    """The distinct documents of a column of runs, found by hopping along its index instead of reading it all."""
    return f"""
        WITH RECURSIVE used (key) AS (
            SELECT min({column}) FROM runs
            UNION ALL SELECT (SELECT min({column}) FROM runs WHERE {column} > used.key) FROM used WHERE used.key IS NOT NULL
        )
        SELECT d.key, d.body FROM used JOIN documents d ON d.key = used.key
    """  # noqa: S608 (columns of our own)
