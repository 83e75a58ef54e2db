"""Presets and remembered settings as rows. Every function works inside the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from app.conversation import Json
from app.errors import NotFound
from storage.rows import clean, dump, load_mapping


def presets(db: sqlite3.Connection) -> Mapping[str, Mapping[str, Json]]:
    """All presets by name, in alphabetical order."""
    rows = db.execute("SELECT name, parameters FROM presets ORDER BY name")
    return {name: load_mapping(parameters) for name, parameters in rows}


def save_preset(db: sqlite3.Connection, name: str, parameters: Mapping[str, Json]) -> None:
    """Add or replace a preset."""
    db.execute("INSERT OR REPLACE INTO presets (name, parameters) VALUES (?, ?)", (clean(name), dump(parameters)))


def delete_preset(db: sqlite3.Connection, name: str) -> None:
    """Remove a preset; raises NotFound."""
    if db.execute("DELETE FROM presets WHERE name = ?", (clean(name),)).rowcount == 0:
        raise NotFound(f"There is no preset {name!r} of your own.")


def setting(db: sqlite3.Connection, name: str) -> Json:
    """A remembered value; None when never set."""
    row = db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
    return None if row is None else json.loads(row["value"])


def save_setting(db: sqlite3.Connection, name: str, value: Json) -> None:
    """Remember a value."""
    db.execute("INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)", (name, dump(value)))
