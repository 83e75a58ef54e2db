"""What a load would do and take, said before it begins: what is read, downloaded or quantized, what is kept on the disk, and the memory."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.models import hub, prepared
from app.models.builtin import builtin_gguf
from app.models.catalogue import resolve
from app.models.folder import read_config, weight_files
from app.models.options import LoadOptions
from app.models.preparation import KEPT_OF_16_BIT
from app.models.schemes import settled
from app.models.source import Source, SourceKind
from app.settings import Settings

Step = Literal["read", "prepare", "quantize", "download"]
"""Read what is there; make a 4-bit copy first; quantize at every start; fetch it first."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """``step`` is what comes before the model can be used, ``sentence`` says it with sizes; ``kept_bytes``: room taken in the cache."""

    step: Step
    sentence: str
    kept_bytes: int = 0


def outlook(name: str, settings: Settings, options: LoadOptions) -> Outlook:
    """What loading ``name`` with these options would begin with; looks at the disk only. Raises ModelNotFound, ModelDamaged."""
    source = resolve(name)
    if source.kind is SourceKind.REMOTE:
        return Outlook("read", "It runs on a server; nothing is loaded here.")
    options = settled(options, source)
    found = prepared.read(prepared.folder_for(settings.cache, source, options.quantization))
    if found and found.current:
        return Outlook("read", f"Reads the copy that was made before ({_size(found.nbytes)}).")
    folder = _folder(source)
    if source.kind is SourceKind.HUB and folder is None:
        return Outlook(
            "download", f"Downloads {source.name} first{', then quantizes it' * options.quantization.four_bit}."
        )
    return _of_gguf(source, settings) if folder is None else _of_folder(folder, settings, options)


def _folder(source: Source) -> Path | None:
    if source.kind is SourceKind.HUB:
        return hub.cached(source.name)
    return source.path if source.kind is SourceKind.FOLDER else None


def _of_gguf(source: Source, settings: Settings) -> Outlook:
    size = (source.path or builtin_gguf()).stat().st_size
    return Outlook(
        "prepare", f"Unpacks the GGUF file once and keeps a copy in the cache folder.{_room(settings, size)}", size
    )


def _of_folder(folder: Path, settings: Settings, options: LoadOptions) -> Outlook:
    on_disk = sum(file.stat().st_size for file in weight_files(folder))
    ready = bool(read_config(folder).get("quantization_config"))
    if ready or not options.quantization.four_bit:
        return Outlook("read", f"Reads the folder as it is ({_size(on_disk)}{', quantized already' * ready}).")
    if not options.save_prepared:
        return Outlook("quantize", f"Quantizes {_size(on_disk)} at every start; no copy is kept.")
    kept = int(on_disk * KEPT_OF_16_BIT)
    sentence = f"Quantizes {_size(on_disk)} once and keeps a copy of up to {_size(kept)} in the cache folder."
    return Outlook("prepare", sentence + _room(settings, kept), kept)


def _room(settings: Settings, needed: int) -> str:
    """A warning where the disk is too full to keep a copy."""
    disk = next(folder for folder in (settings.cache, *settings.cache.absolute().parents) if folder.exists())
    free = shutil.disk_usage(disk).free
    return "" if free > needed else f" But only {_size(free)} are free there."


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{-(-nbytes // 10**6)} MB"
