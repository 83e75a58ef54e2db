"""The prepared copies that can be deleted: what each is of and how large. Only ever folders of the cache, never a user's own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.conversation import Json
from app.errors import ModelError, NotFound
from app.models import prepared
from app.models.options import Quantization


@dataclass(frozen=True, slots=True)
class Copy:
    """A folder of prepared weights. ``name`` is the folder's own and what it is deleted by; ``of`` the model as it was named when it
    was made; ``settings`` the slug of its quantization; ``usable`` False where it was left by another version and is made anew;
    ``weights`` the hash of its weights."""

    name: str
    of: str
    label: str
    settings: str
    nbytes: int
    made_at: str
    usable: bool = True
    weights: str = ""

    def as_json(self) -> dict[str, Json]:
        """Plain values."""
        return asdict(self)


def every(cache: Path) -> tuple[Copy, ...]:
    """All copies, the largest first, those included whose manifest can't be read: they take space too."""
    here = prepared.root(cache)
    folders = [folder for folder in here.iterdir() if _is_copy(folder)] if here.is_dir() else []
    return tuple(sorted((_described(folder) for folder in folders), key=lambda copy: -copy.nbytes))


def _is_copy(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and not folder.name.startswith(".")


def _described(folder: Path) -> Copy:
    found = prepared.read(folder)
    made = datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="seconds")
    if found is None:
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        return Copy(folder.name, folder.name, folder.name, "", size, made, usable=False)
    told = found.manifest
    return Copy(
        name=folder.name,
        of=str(told.get("name", folder.name)),
        label=str(told.get("label", folder.name)),
        settings=_slug(dict(told.get("quantization") or {})),
        nbytes=found.nbytes,
        made_at=made,
        usable=found.current,
        weights=found.weights_sha256,
    )


def _slug(quantization: dict[str, Json]) -> str:
    """The short name of the settings; empty for those of another version."""
    try:
        return Quantization(**quantization).slug
    except TypeError:
        return ""


def remove(cache: Path, name: str) -> Copy:
    """Delete a copy and return what it was. A model that was loaded from it stays usable where the system lets an open file live on.

    Raises NotFound for what isn't a copy of this cache, ModelError when the folder can't be removed.
    """
    found = next((copy for copy in every(cache) if copy.name == name), None)
    if found is None:
        raise NotFound(f"There is no prepared copy {name}.")
    folder = prepared.root(cache) / found.name
    try:
        prepared.discard(folder)
    except OSError as cause:
        raise ModelError(
            f"The copy of {found.label} could not be deleted: {cause.strerror or cause}. Unload it first."
        ) from cause
    return found
