"""``fader models settings`` and ``remove``: how a model is loaded, and the prepared copies, as they are printed and asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from app.commands.output import human_bytes, table
from app.errors import BadParameter, NotFound, RefusedInput
from app.models import choices
from app.models.options import LoadOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.conversation import Json
    from app.models.copies import Copy
    from app.models.service import ModelService


def options_with(base: LoadOptions, assignments: Sequence[str]) -> LoadOptions:
    """``base`` with each ``name=value``. Raises BadParameter."""
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadParameter(text, "write it as name=value")
        base = choices.changed(base, {name.strip(): value.strip()})
    return base


def tried(service: ModelService, name: str, assignments: Sequence[str] | None) -> LoadOptions | None:
    """The options of one trial: what was chosen for the model before, with these changes; None without any."""
    return options_with(service.options(name), assignments) if assignments else None


def settings_json(options: LoadOptions) -> list[dict[str, Json]]:
    """Every row with its value and what it can be."""
    return [
        {
            "name": row.name,
            "label": row.label,
            "value": choices.value_of(options, row.name),
            "values": list(choices.offered(row.name, options)),
            "takes": choices.needs(row, options),
            "in_use": not choices.idle(options, row.name),
            "help": row.help,
        }
        for row in choices.ROWS
    ]


def settings_lines(rows: Sequence[dict[str, Json]]) -> str:
    """The same for people, written as the command takes it."""
    shown = [(row["name"], _word(row["value"]), " | ".join(map(_word, row["values"])), row["takes"]) for row in rows]
    return table([("NAME", "NOW", "CAN BE", "A CHANGE NEEDS"), *shown])


def _word(value: Json) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def copies_lines(found: Sequence[Copy]) -> str:
    """The prepared copies with sizes."""
    if not found:
        return "There are no prepared copies."
    rows = [(copy.name, copy.settings or "another version’s", human_bytes(copy.nbytes)) for copy in found]
    return table([("COPY", "SETTINGS", "SIZE"), *rows])


def copies_named(found: Sequence[Copy], name: str) -> list[Copy]:
    """The copies that ``name`` means: one by its folder's name, or all of a model. Raises NotFound."""
    meant = [copy for copy in found if name in (copy.name, copy.of, copy.label)]
    if not meant:
        raise NotFound(f"There is no prepared copy {name}. “fader models remove” lists what is there.")
    return meant


def agreed(doomed: Sequence[Copy], *, yes: bool, can_ask: bool) -> bool:
    """Whether they may go. Raises RefusedInput where nobody can be asked and ``yes`` wasn't said."""
    if yes:
        return True
    if not can_ask:
        raise RefusedInput("Say --yes to delete without being asked.")
    typer.echo(copies_lines(doomed))
    return typer.confirm(f"Delete {'this copy' if len(doomed) == 1 else f'these {len(doomed)} copies'}?")
