"""Checkpoints quantized once and kept in the cache folder: complete and verified, or not there at all.

A prepared folder is written beside its final place and renamed at the end, so an interrupted preparation is never used. Its
manifest.json names source, settings, library versions, and size and SHA-256 of every file; when anything differs it is rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import mkdtemp

import psutil

from app.conversation import Json
from app.models.options import Quantization
from app.models.source import Source, SourceKind

FORMAT = 4
MANIFEST = "manifest.json"
LIBRARIES = ("transformers", "bitsandbytes")
ALWAYS_HASHED_BELOW = 1 << 30
"""Files below 1 GiB are hashed at every start (~1 s per GB); larger ones when touched since they were written."""
_PENDING = ".pending-"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A complete prepared checkpoint and its manifest."""

    folder: Path
    manifest: Mapping[str, Json]

    @property
    def nbytes(self) -> int:
        """Size on disk."""
        return sum(int(entry["size"]) for entry in self.manifest["files"].values())

    @property
    def current(self) -> bool:
        """Whether this version of Fader made it, with these versions of the libraries; else it is made anew when it is wanted."""
        return bool(self.manifest.get("format") == FORMAT and self.manifest.get("libraries") == library_versions())

    @property
    def weights_sha256(self) -> str:
        """One hash for all weight files, which tells one quantization of a model from another."""
        weights = {n: e["sha256"] for n, e in sorted(self.manifest["files"].items()) if n.endswith(".safetensors")}
        return hashlib.sha256(json.dumps(weights).encode()).hexdigest()


def root(cache: Path) -> Path:
    """The folder of all prepared checkpoints."""
    return cache / "prepared"


def folder_for(cache: Path, source: Source, quantization: Quantization) -> Path:
    """Where the checkpoint of this source and these settings belongs. Two files of one name don't collide."""
    if source.kind is SourceKind.BUILTIN:
        return root(cache) / f"{source.name}-{quantization.slug}"
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", source.label).strip("-.")[:60]
    where = str(source.path.resolve()) if source.kind is not SourceKind.HUB and source.path else source.name
    return root(cache) / f"{plain}-{hashlib.sha256(where.encode()).hexdigest()[:10]}-{quantization.slug}"


def library_versions() -> dict[str, str]:
    """Versions of the libraries that decide how a checkpoint is written and read."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def expected(source_state: Mapping[str, Json], quantization: Quantization) -> dict[str, Json]:
    """The part of a manifest that must be equal for a checkpoint to be used."""
    return {
        "format": FORMAT,
        "source": dict(source_state),
        "quantization": quantization.as_json(),
        "libraries": library_versions(),
    }


def read(folder: Path) -> Prepared | None:
    """The checkpoint in ``folder`` if there is one with a readable manifest; nothing else is checked."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        Prepared(folder, manifest).nbytes  # noqa: B018  (a manifest of another shape raises)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Prepared(folder, manifest)


def why_unusable(folder: Path, wanted: Mapping[str, Json] | None) -> str | None:
    """None if the checkpoint can be used, else the reason to rebuild it. ``wanted`` None: the source can't be compared."""
    found = read(folder)
    if found is None:
        return "its manifest can't be read"
    for part, value in (wanted or {}).items():
        if found.manifest.get(part) != value:
            return _DIFFERS.get(part, f"its {part} differs")
    for name, entry in found.manifest["files"].items():
        reason = _file_damage(folder, name, entry)
        if reason:
            return reason
    return None


_DIFFERS: Mapping[str, str] = {
    "format": "it was prepared by another version of Fader",
    "source": "the model it was made from has changed",
    "quantization": "it was made with other settings",
    "libraries": "it was made with other versions of the libraries",
}


def _file_damage(folder: Path, name: str, entry: Mapping[str, Json]) -> str | None:
    file = folder / name
    if not file.is_file():
        return f"{name} is missing"
    state = file.stat()
    if state.st_size != entry["size"]:
        return f"{name} has {state.st_size} bytes instead of {entry['size']}"
    unchanged = state.st_mtime_ns == entry["mtime_ns"] and state.st_size >= ALWAYS_HASHED_BELOW
    if not unchanged and sha256(file) != entry["sha256"]:
        return f"{name} does not match its checksum"
    return None


def sha256(file: Path) -> str:
    """Hex SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def writing(folder: Path, manifest: Mapping[str, Json]) -> Iterator[Path]:
    """Yields an empty folder to fill; on success it becomes ``folder`` (replacing what was there), on failure it vanishes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent)
    pending = Path(mkdtemp(prefix=f"{_PENDING}{os.getpid()}-", dir=folder.parent))
    try:
        yield pending
        _seal(pending, manifest)
        if why_unusable(folder, manifest) is not None:  # else another process was quicker; keep what it may have mapped
            discard(folder)
            pending.rename(folder)
    finally:
        shutil.rmtree(pending, ignore_errors=True)


def _seal(pending: Path, manifest: Mapping[str, Json]) -> None:
    files = {}
    for file in sorted(path for path in pending.rglob("*") if path.is_file()):
        state = file.stat()
        entry = {"size": state.st_size, "mtime_ns": state.st_mtime_ns, "sha256": sha256(file)}
        files[file.relative_to(pending).as_posix()] = entry
    whole = dict(manifest) | {"files": files}
    (pending / MANIFEST).write_text(json.dumps(whole, indent=1), encoding="utf-8")


def discard(folder: Path) -> None:
    """Remove a checkpoint: renamed first, so that it is gone at once even if deleting its files takes a while or fails."""
    if folder.exists():
        doomed = Path(mkdtemp(prefix=f"{_PENDING}{os.getpid()}-", dir=folder.parent))
        folder.rename(doomed / folder.name)
        shutil.rmtree(doomed, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove what interrupted preparations have left: pending folders whose process is gone."""
    for left in parent.glob(f"{_PENDING}*"):
        if not _has_owner(left):
            shutil.rmtree(left, ignore_errors=True)


def _has_owner(pending: Path) -> bool:
    """Whether the process that made it still runs; a process started later merely has the same number."""
    pid = pending.name.removeprefix(_PENDING).split("-")[0]
    try:
        return bool(psutil.Process(int(pid)).create_time() <= pending.stat().st_ctime + 1)
    except (psutil.Error, OSError, ValueError):
        return False


def every(cache: Path) -> tuple[Prepared, ...]:
    """All prepared checkpoints, by name."""
    here = root(cache)
    folders = sorted(here.iterdir()) if here.is_dir() else []
    found = [read(folder) for folder in folders if folder.is_dir() and not folder.name.startswith(_PENDING)]
    return tuple(prepared for prepared in found if prepared)
