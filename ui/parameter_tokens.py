"""How typed texts look to the loaded model's tokenizer, for the page: pieces with their ids, with and without a leading space."""

from __future__ import annotations

from collections.abc import Sequence

from app.conversation import Json
from app.engine.desk import Desk, Piece
from app.parameters.row import Parameter
from app.parameters.sending import variants
from ui.controls_text import read_entries, read_rows

MOST = 50
"""Entries looked at for one field."""
_VISIBLE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})


def token_text(desk: Desk | None, token_id: int) -> str:
    """A token as its text with spaces visible, or its id where no model is loaded."""
    return str(token_id) if desk is None else _pieces(desk, [token_id])[0]


def forms(desk: Desk, row: Parameter, text: str) -> list[dict[str, Json]]:
    """For each entry of a field ``{"entry", "forms": [{"where", "ids", "pieces"}]}``, the ways in which it may stand in a text."""
    entries = [phrase for phrase, _ in read_rows(text)] if row.kind == "rows" else read_entries(text, row.kind)
    return [{"entry": str(entry), "forms": _forms(desk, row, entry)} for entry in entries[:MOST] if entry != ""]


def _forms(desk: Desk, row: Parameter, entry: Json) -> list[dict[str, Json]]:
    """Tokens that must be single have only the one form as typed; stop texts are compared as texts, so how they are cut is no matter."""
    if not isinstance(entry, str):
        return [_form(desk, "id", entry if isinstance(entry, list) else [entry])]
    typed = desk.encode(entry)
    if row.name in ("eos_token_id", "forced_eos_token_id", "stop_strings") or row.kind == "token":
        return [_form(desk, "as typed", typed)]
    spaced = desk.encode(f" {entry}")
    return [_form(desk, _where(ids, typed, spaced), ids) for ids in variants(entry, desk.encode)]


def _where(ids: Sequence[int], typed: Sequence[int], spaced: Sequence[int]) -> str:
    if list(ids) == list(typed):
        return "as typed"
    return "after a space" if list(ids) == list(spaced) else "inside a text"


def _form(desk: Desk, where: str, ids: Sequence[int]) -> dict[str, Json]:
    return {"where": where, "ids": list(ids), "pieces": _pieces(desk, ids)}


def _pieces(desk: Desk, ids: Sequence[int]) -> list[str]:
    """An id outside the vocabulary, or a part of a character, is shown as its number."""
    known = [i for i in ids if 0 <= i < desk.facts.vocab_size]
    read = {piece.id: _visible(piece) for piece in desk.pieces(known)}
    return [read.get(i, f"{i}?") for i in ids]


def _visible(piece: Piece) -> str:
    if not piece.text or "\ufffd" in piece.text:
        return f"#{piece.id}"
    return piece.text.translate(_VISIBLE)
