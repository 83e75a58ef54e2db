"""The models as the engine and the commands use them: load, free, prepare, list, estimate, measure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from app.models import copies, remembered
from app.models.catalogue import resolve
from app.remote.address import is_remote
from app.remote.connecting import RemoteModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from app.conversation import Json
    from app.models.copies import Copy
    from app.models.loading import LoadedModel
    from app.models.options import LoadOptions
    from app.settings import Settings


class ModelService:
    """Loads by name (built-in, hub id, folder or GGUF file) into memory that ``unload`` gives back, or connects to a server."""

    def __init__(self, settings: Settings) -> None:
        from app.distributed.spread import Spread

        self._settings = settings
        self._spread = Spread(settings.tensor_parallel) if settings.tensor_parallel > 1 else None

    def load(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Event | None = None,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        """Load a model as was chosen for it, or as ``options`` say, which are remembered once it is loaded.

        Raises ModelError or Cancelled, and RefusedInput for one that can't be spread as the settings say.
        """
        loaded = self._load(name, options or self.options(name), progress, cancelled)
        if options is not None:
            with suppress(OSError):  # a data folder that can't be written has been told about already
                self.choose(name, options)
        return loaded

    def _load(
        self,
        name: str,
        options: LoadOptions,
        progress: Callable[[str, int, int], None] | None,
        cancelled: Event | None = None,
    ) -> LoadedModel:
        from app.models.loading import load_model
        from app.remote.connecting import connect

        if is_remote(name):
            return connect(name, self._settings, cancelled=cancelled)
        load = self._spread.load if self._spread else load_model
        return load(name, self._settings, progress=progress, cancelled=cancelled, options=options)

    def options(self, name: str) -> LoadOptions:
        """How a model is loaded by its name alone. Raises ModelNotFound."""
        return remembered.options_for(self._settings.home, resolve(name))

    def choose(self, name: str, options: LoadOptions) -> None:
        """Load it like this from the next time on. Raises ModelNotFound, OSError."""
        remembered.remember(self._settings.home, resolve(name), options)

    def unload(self, loaded: LoadedModel) -> None:
        """Give the memory back; the object is unusable afterwards."""
        from app.models.loading import unload

        if isinstance(loaded, RemoteModel):
            return
        free = self._spread.unload if self._spread else unload
        free(loaded)

    def prepare(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        options: LoadOptions | None = None,
    ) -> dict[str, Json]:
        """Make the prepared checkpoint unless a valid one is there."""
        from app.models.loading import prepare_model

        given = options or self.options(name)
        return {"name": name, "folder": str(prepare_model(name, self._settings, progress=progress, options=given))}

    def list(self) -> list[dict[str, Json]]:
        """What is here, as plain values."""
        from app.models.catalogue import list_models

        return [entry.as_json() for entry in list_models(self._settings)]

    def copies(self) -> tuple[Copy, ...]:
        """The prepared copies on the disk."""
        return copies.every(self._settings.cache)

    def remove_copy(self, name: str) -> Copy:
        """Delete one of them by its folder's name. Raises NotFound."""
        return copies.remove(self._settings.cache, name)

    def estimate(self, name: str, options: LoadOptions | None = None) -> dict[str, Json]:
        """Memory a load would need against what is free, with a verdict."""
        from app.models.budget import estimate

        return asdict(estimate(name, self._settings, options=options or self.options(name)))

    def measure(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        options: LoadOptions | None = None,
    ) -> dict[str, Json]:
        """Load, report what the model really is, free it again; nothing is remembered."""
        loaded = self._load(name, options or self.options(name), progress)
        facts = loaded.facts
        report: dict[str, Json] = {
            "name": name,
            **asdict(loaded.report),
            "options": dict(facts.load_options),
            "attention": facts.attention,
            "device": facts.device,
            "fingerprint": dict(facts.fingerprint),
        }
        self.unload(loaded)
        return report
