"""The models as the engine and the commands use them: load, free, prepare, list, estimate, measure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from app.conversation import Json
    from app.models.loading import LoadedModel
    from app.settings import Settings


class ModelService:
    """Loads by name (built-in, hub id, folder or GGUF file) into memory that ``unload`` gives back."""

    def __init__(self, settings: Settings) -> None:
        from app.distributed.spread import Spread

        self._settings = settings
        self._spread = Spread(settings.tensor_parallel) if settings.tensor_parallel > 1 else None

    def load(
        self, name: str, *, progress: Callable[[str, int, int], None] | None = None, cancelled: Event | None = None
    ) -> LoadedModel:
        """Load a model. Raises ModelError or Cancelled, and RefusedInput for one that can't be spread as the settings say."""
        from app.models.loading import load_model

        load = self._spread.load if self._spread else load_model
        return load(name, self._settings, progress=progress, cancelled=cancelled)

    def unload(self, loaded: LoadedModel) -> None:
        """Give the memory back; the object is unusable afterwards."""
        from app.models.loading import unload

        free = self._spread.unload if self._spread else unload
        free(loaded)

    def prepare(self, name: str, *, progress: Callable[[str, int, int], None] | None = None) -> dict[str, Json]:
        """Make the prepared checkpoint unless a valid one is there."""
        from app.models.loading import prepare_model

        return {"name": name, "folder": str(prepare_model(name, self._settings, progress=progress))}

    def list(self) -> list[dict[str, Json]]:
        """What is here, as plain values."""
        from app.models.catalogue import list_models

        return [entry.as_json() for entry in list_models(self._settings)]

    def estimate(self, name: str) -> dict[str, Json]:
        """Memory a load would need against what is free, with a verdict."""
        from app.models.budget import estimate

        return asdict(estimate(name, self._settings))

    def measure(self, name: str, *, progress: Callable[[str, int, int], None] | None = None) -> dict[str, Json]:
        """Load, report what the model really is, free it again."""
        loaded = self.load(name, progress=progress)
        report: dict[str, Json] = {"name": name, **asdict(loaded.report), "fingerprint": dict(loaded.facts.fingerprint)}
        self.unload(loaded)
        return report
