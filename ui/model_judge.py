"""What is said of a model, and of how it is to be loaded, before anything is; and the asking for the load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.chat import Chat
from app.errors import FaderError
from app.models import hub
from app.models.catalogue import resolve
from app.models.choices import Takes
from app.models.source import SourceKind
from ui.load_choices import LoadChoices


class Judge:
    """What is said of a model and how it is to be loaded, and the loading itself."""

    def __init__(self, chat: Chat, how: LoadChoices) -> None:
        self._chat = chat
        self._how = how

    def load(self, name: str | None, *values: Any) -> str:
        """Ask the engine to load it so."""
        return told(lambda: self._chat.engine.load(named(name), self._how.options(values)))

    def glance(self, name: str | None, *values: Any) -> str:
        """The verdict where it needs no network; of a hub model that isn't here only what comes first."""
        try:
            source = resolve(named(name))
            known = source.kind is not SourceKind.HUB or hub.cached(source.name) is not None
        except FaderError as error:
            return str(error)
        return self.verdict(name, *values) if known else self._outlook(source.name, values)

    def verdict(self, name: str | None, *values: Any) -> str:
        """Whether it fits, what the load begins with, and what would be otherwise than now."""
        from app.models.budget import estimate

        loaded = self._chat.engine.loaded
        in_use = loaded.report.resident_bytes if loaded else 0
        try:
            found = estimate(named(name), self._chat.settings, options=self._how.options(values), in_use=in_use)
        except FaderError as error:
            return str(error)
        return f"{found.verdict} {self._outlook(named(name), values)}".strip()

    def _outlook(self, name: str, values: tuple[Any, ...]) -> str:
        from app.models.outlook import outlook

        try:
            options = self._how.options(values)
            begins = outlook(name, self._chat.settings, options)
        except FaderError as error:
            return str(error)
        takes: Takes = "preparation" if begins.step == "prepare" else "load"
        return f"{begins.sentence} {self._how.loaded_differently(name, options, takes)}".strip()


def named(name: str | None) -> str:
    """What was typed, without blanks around it."""
    return (name or "").strip()


def told(action: Callable[[], object]) -> str:
    """Carry out a request to the engine; what is wrong with it is said below the buttons."""
    try:
        action()
    except FaderError as error:
        return str(error)
    return ""
