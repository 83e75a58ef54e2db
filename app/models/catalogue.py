"""Which models there are and what a name means; cheap enough for the page: imports neither torch nor transformers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from app.conversation import Json
from app.errors import FaderError, ModelNotFound
from app.models import hub, prepared
from app.models.builtin import LABEL, POINT_ELSEWHERE, builtin_source
from app.models.source import BUILTIN, Source, SourceKind
from app.remote.address import is_remote, parse
from app.settings import Settings

LIST_S = 2.0
"""A list is not kept waiting longer for a server that doesn't answer."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the model list. ``kind``: builtin | prepared | hub | folder | gguf | remote; ``nbytes`` on disk (0: not there
    yet, or on a server)."""

    name: str
    kind: str
    label: str
    nbytes: int
    quantization: str = ""
    detail: str = ""

    def as_json(self) -> dict[str, Json]:
        """For ``fader models list --json``."""
        return {
            "name": self.name,
            "kind": self.kind,
            "label": self.label,
            "bytes": self.nbytes,
            "quantization": self.quantization,
            "detail": self.detail,
        }


def resolve(name: str) -> Source:
    """What ``name`` means: ``builtin``, a server's address, an existing GGUF file or folder, else a hub id. Looks at the file system only.

    Raises ModelNotFound for something that looks like a path but isn't there, or isn't a possible hub id; RefusedInput for an
    address with a password in it.
    """
    if name == BUILTIN:
        return builtin_source()
    if not name.strip():
        raise ModelNotFound(f"No model was named. {POINT_ELSEWHERE}")
    if is_remote(name):
        address = parse(name)
        return Source(address.name, SourceKind.REMOTE, address.model.rpartition("/")[2] or address.host)
    path = Path(name).expanduser()
    if path.is_file():
        return _file(name, path)
    if path.is_dir():
        return _folder(name, path.resolve())
    if _looks_like_path(name):
        raise ModelNotFound(f"There is no model at {path}.")
    if not hub.ID.fullmatch(name):
        raise ModelNotFound(f"“{name}” is neither a file, a folder nor the id of a model on the hub. {POINT_ELSEWHERE}")
    return Source(name, SourceKind.HUB, name.rpartition("/")[2])


def _file(name: str, path: Path) -> Source:
    with path.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise ModelNotFound(f"{path} is not a GGUF file. {POINT_ELSEWHERE}")
    return Source(name, SourceKind.GGUF, path.stem, path.resolve())


def _folder(name: str, path: Path) -> Source:
    """A folder with config.json is a checkpoint; one with exactly one GGUF file stands for that file."""
    files = sorted(path.glob("*.gguf"))
    if not (path / "config.json").is_file() and len(files) == 1:
        return _file(name, files[0])
    return Source(name, SourceKind.FOLDER, path.name, path)


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or "\\" in name or name.endswith(".gguf") or name.count("/") > 1


def list_models(settings: Settings) -> tuple[Entry, ...]:
    """The built-in model, what is prepared, what the hub cache holds, with sizes on disk; and what the server of FADER_REMOTE_URL has."""
    return (*_builtin(), *_prepared(settings), *_hub(), *_served(settings))


def _builtin() -> tuple[Entry, ...]:
    path = builtin_source().path
    if path is None:
        return (Entry(BUILTIN, "builtin", LABEL, 0, detail="not installed: run `python3 launch.py setup`"),)
    return (Entry(BUILTIN, "builtin", LABEL, path.stat().st_size, "Q4_1"),)


def _prepared(settings: Settings) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            name=str(found.manifest.get("name", found.folder.name)),
            kind="prepared",
            label=str(found.manifest.get("label", found.folder.name)),
            nbytes=found.nbytes,
            quantization=str(found.manifest["quantization"]["scheme"]),
            detail=str(found.folder),
        )
        for found in prepared.every(settings.cache)
    )


def _hub() -> tuple[Entry, ...]:
    return tuple(
        Entry(model.id, "hub", model.id.rpartition("/")[2], model.nbytes, detail=model.revision[:10])
        for model in hub.in_cache()
    )


def _served(settings: Settings) -> tuple[Entry, ...]:
    """The models of the configured server; one line that says why where it doesn't answer."""
    if settings.remote_url is None:
        return ()
    from app.remote.connecting import listed

    try:
        address = parse(settings.remote_url)
        found = listed(address, settings, patience_s=LIST_S)
    except FaderError as error:
        return (Entry(settings.remote_url, "remote", settings.remote_url, 0, detail=str(error)),)
    where = f"on {address.host}"
    return tuple(
        Entry(replace(address, model=one.id).name, "remote", one.id.rpartition("/")[2], 0, detail=where)
        for one in found
    )
