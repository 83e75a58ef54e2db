"""The presets a user can choose from: the shipped ones, their own, and which of them each model's new conversations start with.

Every method raises RefusedInput with a sentence for what can't be done, and then has changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.chat import Chat
from app.conversation import EMPTY, Json
from app.errors import NotFound, RefusedInput
from app.parameters.presets import Preset, shipped
from app.parameters.validate import validate

DEFAULTS = "default_presets"
"""The setting that holds the default preset's name by model."""
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Shelf:
    """Presets by name; names of the shipped ones can't be taken."""

    chat: Chat

    def all(self) -> list[Preset]:
        """Shipped presets in their order, then the user's own by name."""
        own = self.chat.store.presets()
        return [*shipped(), *(Preset(name, "", parameters) for name, parameters in own.items())]

    def find(self, name: str) -> Preset:
        """One preset. Raises NotFound."""
        for preset in self.all():
            if preset.name == name:
                return preset
        raise NotFound(f"There is no preset “{name}”.")

    def save(self, name: str, parameters: Mapping[str, Json]) -> str:
        """Keep parameters under a name, in place of an own preset of that name; returns the name as kept."""
        name = _name(name)
        self.chat.store.save_preset(name, validate(parameters))
        return name

    def rename(self, name: str, to: str) -> str:
        """Give an own preset another name that is not yet taken; models that start with it go on doing so."""
        to = _name(to)
        kept = self.chat.store.presets()
        if name not in kept:
            raise NotFound(f"There is no preset “{name}” of your own.")
        if to != name and to in kept:
            raise RefusedInput(f"There is already a preset “{to}”.")
        self.chat.store.save_preset(to, kept[name])
        if to != name:
            self.chat.store.delete_preset(name)
            self._keep_defaults({model: to if chosen == name else chosen for model, chosen in self._defaults().items()})
        return to

    def delete(self, name: str) -> Mapping[str, Json]:
        """Remove an own preset; returns what it held, so that it can be saved again."""
        kept = self.chat.store.presets().get(name, EMPTY)
        self.chat.store.delete_preset(name)
        return kept

    def default(self) -> str | None:
        """The name of the preset that the model's new conversations start with."""
        return self._defaults().get(self._model())

    def make_default(self, name: str | None) -> None:
        """Start the model's new conversations with this preset; None: with nothing set."""
        if name is not None:
            self.find(name)
        others = {model: chosen for model, chosen in self._defaults().items() if model != self._model()}
        self._keep_defaults(others if name is None else {**others, self._model(): name})

    def start(self) -> Preset:
        """What a new conversation starts with; a preset without a name: nothing set."""
        return self.named(self.default() or "")

    def named(self, name: str) -> Preset:
        """The preset of that name; an empty one where there is none (any more)."""
        return next((preset for preset in self.all() if preset.name == name), Preset("", "", EMPTY))

    def _model(self) -> str:
        return self.chat.engine.status().name or self.chat.settings.model

    def _defaults(self) -> dict[str, str]:
        return dict(self.chat.store.setting(DEFAULTS) or {})

    def _keep_defaults(self, defaults: Mapping[str, str]) -> None:
        self.chat.store.save_setting(DEFAULTS, dict(defaults))


def _name(typed: str) -> str:
    name = " ".join(typed.split())
    if not name:
        raise RefusedInput("Give the preset a name.")
    if len(name) > LONGEST_NAME:
        raise RefusedInput(f"The name is longer than {LONGEST_NAME} characters.")
    if name in {preset.name for preset in shipped()}:
        raise RefusedInput(f"“{name}” comes with Fader. Choose another name.")
    return name
