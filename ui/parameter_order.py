"""Where each parameter stands on the page: the documents' groups, what people reach for first, and what belongs beside another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.parameters.row import Group, Parameter
from app.parameters.table import BY_NAME, TABLE

OPEN = (Group.LOGITS, Group.LENGTH)
_FIRST = (*OPEN, Group.STRATEGY, Group.OWN)
"""The other groups follow in the documents' order."""
_BESIDE: Mapping[str, str] = {"negative_prompt": "guidance_scale"}
"""Rows that mean nothing without another one stand right below it, whatever their group."""


def group_of(row: Parameter) -> Group:
    """The group that a row is shown in."""
    return BY_NAME[_BESIDE.get(row.name, row.name)].group


def groups() -> Iterator[tuple[Group, list[Parameter]]]:
    """Every group with its rows, in the page's order; each row of the table once."""
    for group in (*_FIRST, *(group for group in Group if group not in _FIRST)):
        own = [row for row in TABLE if row.group is group and row.name not in _BESIDE]
        yield group, [shown for row in own for shown in (row, *_below(row))]


def _below(row: Parameter) -> list[Parameter]:
    return [BY_NAME[name] for name, above in _BESIDE.items() if above == row.name]
