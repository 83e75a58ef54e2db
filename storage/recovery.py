"""Damaged files: set aside, never overwritten, and what can be read of them saved into a new one."""

from __future__ import annotations

from pathlib import Path


def explain_empty(path: Path) -> list[str]:
    return []


def recover(path: Path, why: str) -> list[str]:
    raise NotImplementedError
