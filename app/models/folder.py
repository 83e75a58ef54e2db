"""Judges a transformers folder before anything heavy is imported: complete, readable and of an architecture that can chat.

Reads config.json, the shard index and the safetensors headers only, so a verdict takes milliseconds for any size.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.conversation import Json
from app.errors import ModelDamaged, ModelNotFound, UnsupportedModel

CONFIG = "config.json"
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_SINGLE = ("model.safetensors", "pytorch_model.bin")
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """One tensor of a safetensors file: its name, safetensors' name of the dtype, its shape and size in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


def read_config(folder: Path) -> dict[str, Json]:
    """config.json as a dict; raises ModelNotFound without a folder, ModelDamaged without (readable) config."""
    if not folder.is_dir():
        raise ModelNotFound(f"There is no model folder {folder}.")
    file = folder / CONFIG
    if not file.is_file():
        if any(folder.glob("*.pdparams")):
            raise UnsupportedModel(
                f"{folder} holds a Paddle model. Take the repository of the same name that ends in -PT."
            )
        raise ModelDamaged(f"The folder {folder} has no {CONFIG}, so it isn't a complete transformers model.")
    return _read_json(file)


def _read_json(file: Path) -> dict[str, Json]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise ModelDamaged(f"{file} can't be read: {cause}") from cause
    if not isinstance(value, dict):
        raise ModelDamaged(f"{file} does not hold a JSON object.")
    return value


def weight_files(folder: Path) -> tuple[Path, ...]:
    """All files with weights, by the shard index where there is one; raises ModelDamaged naming what is missing."""
    for index in _INDEXES:
        if (folder / index).is_file():
            shards = sorted(set((_read_json(folder / index).get("weight_map") or {}).values()))
            if not shards:
                raise ModelDamaged(f"{folder / index} names no weights. Fetch it again.")
            missing = [name for name in shards if not (folder / name).is_file()]
            if missing:
                raise ModelDamaged(
                    f"{folder} is incomplete: {len(missing)} of {len(shards)} shards missing, first {missing[0]}."
                )
            return tuple(folder / name for name in shards)
    for name in _SINGLE:
        if (folder / name).is_file():
            return (folder / name,)
    raise ModelDamaged(f"The folder {folder} has no weights (no {_SINGLE[0]} and no shard index).")


def tensor_headers(file: Path) -> Iterator[TensorHeader]:
    """The tensors that a safetensors file lists.

    Format: 8 bytes little-endian length, a JSON object name -> {dtype, shape, data_offsets}, then the data
    (the safetensors format description). Raises ModelDamaged when the file is shorter or longer than its header says,
    UnsupportedModel when it was written by Paddle.
    """
    header, start = _safetensors_header(file)
    if header.pop("__metadata__", {}).get("format") == "paddle":
        raise UnsupportedModel(
            f"{file.name} was written by Paddle. Take the repository of the same name that ends in -PT."
        )
    end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    size = file.stat().st_size
    if size != start + end:
        raise ModelDamaged(f"{file} is damaged: {size} bytes instead of {start + end}. Fetch it again.")
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        yield TensorHeader(name, entry["dtype"], tuple(entry["shape"]), last - first)


def _safetensors_header(file: Path) -> tuple[dict[str, Json], int]:
    try:
        with file.open("rb") as stream:
            (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
            header = json.loads(stream.read(min(length, file.stat().st_size)))
    except (OSError, ValueError, struct.error) as cause:
        raise ModelDamaged(f"{file} is damaged: {cause}. Fetch it again.") from cause
    return header, _LENGTH.size + length


def check_folder(folder: Path) -> dict[str, Json]:
    """Everything that can be said about a folder without loading it; returns its config.

    Raises ModelNotFound, ModelDamaged (config, shard, truncated file, tokenizer) or UnsupportedModel (architecture).
    """
    config = read_config(folder)
    check_architecture(config, folder.name)
    for file in weight_files(folder):
        if file.suffix == ".safetensors":
            for _tensor in tensor_headers(file):
                pass
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise ModelDamaged(
            f"The folder {folder} has no tokenizer (tokenizer.json or tokenizer.model). Copy it from where the model came."
        )
    return config


def check_architecture(config: Mapping[str, Json], label: str) -> None:
    """Raises UnsupportedModel unless transformers itself can run this architecture as a text generator."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )

    kind = config.get("model_type")
    if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return
    named = " ".join([str(kind or "unnamed"), *(config.get("architectures") or ())])
    if config.get("auto_map"):
        raise UnsupportedModel(f"{label} ({named}) runs only with code from its author, which Fader never executes.")
    raise UnsupportedModel(
        f"{label} has the architecture {named}, which the installed transformers can't run as a chat model."
    )
