"""Conversations in one SQLite file. ``open_store(home)`` is the way in; nothing outside this room sees a row."""

from storage.conversations import Store
from storage.opening import open_store
from storage.restoring import restore

__all__ = ["Store", "open_store", "restore"]
