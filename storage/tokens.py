"""Token ids of runs, kept small: a prompt repeats the conversation so far, so only what it adds to an earlier prompt is stored.

A row names the run of an ancestor as its ``base`` and how many ids it shares with the base's prompt and output; the rest follows.
Chains of bases are at most ``_DEEPEST`` long, so that reading one prompt stays quick.
"""

from __future__ import annotations

import sqlite3
import sys
import zlib
from array import array
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from app.errors import DamagedDatabase

Ids: TypeAlias = tuple[int, ...]

_DEEPEST = 24
_WORTHWHILE = 16
"""Sharing fewer ids than this isn't worth a base."""

_NARROW = 2**32


class Tokens(NamedTuple):
    """The ids of a run; ``depth`` is the length of its chain of bases."""

    prompt: Ids = ()
    output: Ids = ()
    depth: int = 0


NONE = Tokens()
Known: TypeAlias = dict[int, Tokens]
"""Tokens by message key that have been read already in the same transaction."""


def pack(ids: Sequence[int]) -> bytes | None:
    """Ids as stored: a letter for their width (``I`` 32 bits, ``q`` 64), then, zlib-compressed, little-endian integers."""
    if not ids:
        return None
    wide = min(ids) < 0 or max(ids) >= _NARROW
    numbers = array("q" if wide else "I", ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return (b"q" if wide else b"I") + zlib.compress(numbers.tobytes(), 1)


def unpack(data: bytes | None) -> Ids:
    """The ids that ``pack`` stored."""
    if data is None:
        return ()
    try:
        numbers = array(chr(data[0]), zlib.decompress(memoryview(data)[1:]))
    except (ValueError, IndexError, zlib.error) as error:
        raise DamagedDatabase(f"Token ids in the database are damaged ({error}).") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def load(db: sqlite3.Connection, message: int, known: Known) -> Tokens:
    """The ids of a message's run; none if there are none. ``known`` is read and added to."""
    chain: list[tuple[int, sqlite3.Row]] = []
    step: int | None = message
    while step is not None and step not in known:
        row = db.execute(
            "SELECT base, shared, prompt_ids, output_ids FROM run_tokens WHERE message = ?", (step,)
        ).fetchone()
        if row is None:
            known[step] = NONE
            break
        chain.append((step, row))
        step = row["base"]
    for key, (base, shared, prompt, output) in reversed(chain):
        before = known[base] if base is not None else NONE
        known[key] = Tokens(
            _beginning(before, shared) + unpack(prompt), unpack(output), before.depth + (base is not None)
        )
    return known[message]


def _beginning(base: Tokens, shared: int) -> Ids:
    if shared <= len(base.prompt):
        return base.prompt[:shared]
    return base.prompt + base.output[: shared - len(base.prompt)]


def save(db: sqlite3.Connection, message: int, prompt: Ids, output: Ids) -> None:
    """Keep the ids of a message's run, in the place of any that are there."""
    _unbase(db, message)
    if not prompt and not output:
        return
    base, tokens = _base(db, message)
    shared = _shared(prompt, tokens) if tokens.depth < _DEEPEST else 0
    if shared < _WORTHWHILE:
        base, shared = None, 0
    db.execute(
        "INSERT INTO run_tokens (message, base, shared, prompt_ids, output_ids) VALUES (?, ?, ?, ?, ?)",
        (message, base, shared, pack(prompt[shared:]), pack(output)),
    )


def _shared(prompt: Ids, base: Tokens) -> int:
    """How many ids a prompt has in common with the beginning of the base's prompt and output."""
    whole = base.prompt + base.output
    low, high = 0, min(len(prompt), len(whole))
    while low < high:  # bisecting over slices compares in C
        middle = (low + high + 1) // 2
        if prompt[low:middle] == whole[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _base(db: sqlite3.Connection, message: int) -> tuple[int | None, Tokens]:
    """The nearest ancestor whose run has ids."""
    key: int | None = message
    while key is not None:
        (key,) = db.execute("SELECT parent FROM messages WHERE key = ?", (key,)).fetchone()
        if key is not None and (tokens := load(db, key, {})) != NONE:
            return key, tokens
    return None, NONE


def _unbase(db: sqlite3.Connection, message: int) -> None:
    """Remove a message's ids; prompts that build on them are stored in full first."""
    if db.execute("SELECT 1 FROM run_tokens WHERE message = ?", (message,)).fetchone() is None:
        return
    known: Known = {}
    rows = db.execute(
        """SELECT t.message FROM messages m JOIN messages o ON o.conversation = m.conversation
           JOIN run_tokens t ON t.message = o.key WHERE m.key = ? AND t.base = ?""",
        (message, message),
    ).fetchall()
    for (key,) in rows:
        tokens = load(db, key, known)
        db.execute(
            "UPDATE run_tokens SET base = NULL, shared = 0, prompt_ids = ? WHERE message = ?",
            (pack(tokens.prompt), key),
        )
    db.execute("DELETE FROM run_tokens WHERE message = ?", (message,))
