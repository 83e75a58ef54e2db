"""Use cases over a real database file and a tiny real model, and what must hold of every run however it ended."""

from __future__ import annotations

from tests.chat.conftest import chat
from tests.engine.conftest import models, tiny

__all__ = ["chat", "models", "tiny"]
