"""GGUF files as a source: judged by their header, then turned into an ordinary checkpoint by transformers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from app.errors import ModelDamaged, ModelNotFound, UnsupportedModel
from app.models.translate import translated
from app.models.watch import Watch

_EXACT_BELOW = 10**9
"""Models with fewer parameters are unpacked into float32, which keeps every bit of their source."""


@dataclass(frozen=True, slots=True)
class GgufSummary:
    """What a header says: the architecture's name, number of parameters, size of the file in bytes."""

    architecture: str
    parameters: int
    nbytes: int


def check_gguf(file: Path) -> GgufSummary:
    """Read the header; raises ModelNotFound, ModelDamaged (no GGUF, cut short) or UnsupportedModel naming the architecture."""
    if not file.is_file():
        raise ModelNotFound(f"There is no file {file}.")
    from transformers.integrations.gguf.reader import GgufHeader, read_gguf_metadata

    try:
        metadata, _names = read_gguf_metadata(str(file))
    except (ValueError, struct.error, UnicodeDecodeError, IndexError) as cause:
        raise ModelDamaged(f"{file} is not a readable GGUF file: {cause}") from cause
    architecture = str(metadata["general.architecture"])
    if not _known(architecture):
        raise UnsupportedModel(
            f"{file.name} has the GGUF architecture “{architecture}”, which transformers can't read yet."
        )
    try:
        header = GgufHeader.from_file(str(file))
    except ValueError as cause:
        raise UnsupportedModel(f"{file.name} can't be read: {cause}") from cause
    size = file.stat().st_size
    needed = header.data_start + max((t.offset + t.nbytes for t in header.tensors), default=0)
    if size < needed:
        raise ModelDamaged(f"{file} is cut short: {size} bytes instead of {needed}. Fetch it again.")
    return GgufSummary(architecture, sum(prod(t.shape) for t in header.tensors), size)


def _known(architecture: str) -> bool:
    from transformers.integrations.gguf.utils import is_gguf_arch_supported
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    renamed = {"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gpt-oss": "gpt_oss", "minimax-m2": "minimax_m2"}
    return is_gguf_arch_supported(architecture) or bool(
        {architecture, renamed.get(architecture)} & set(GGUF_SUPPORTED_ARCHITECTURES)
    )


@contextmanager
def _old_reader_followed(watch: Watch) -> Iterator[None]:
    """The reader for older architectures draws its bar with tqdm itself; it gets ours for as long as it runs."""
    from transformers import modeling_gguf_pytorch_utils

    reader: Any = modeling_gguf_pytorch_utils  # its tqdm is an import, not an announced attribute
    original = reader.tqdm
    reader.tqdm = partial(watch.bar, "Unpacking the weights")
    try:
        yield
    finally:
        reader.tqdm = original


def write_dense(file: Path, folder: Path, parameters: int, watch: Watch) -> None:
    """Write the GGUF's model as a float32 or (large ones) bf16 transformers checkpoint with its tokenizer into ``folder``.

    GGUF blocks can't be quantized by bitsandbytes in the same load, and a llama-architecture file loaded without GgufConfig can't
    be saved; so it is dequantized explicitly, and the 4-bit checkpoint is then made from this folder.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with translated(file.name):
        watch.step("Reading the tokenizer")
        AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True).save_pretrained(folder)
        watch.step("Unpacking the weights")
        with watch.follow("Unpacking the weights"), _old_reader_followed(watch):
            model = AutoModelForCausalLM.from_pretrained(
                file.parent,
                gguf_file=file.name,
                quantization_config=GgufConfig(dequantize=True),
                dtype=torch.float32 if parameters < _EXACT_BELOW else torch.bfloat16,
                local_files_only=True,
            )
        watch.step("Writing the weights")
        with watch.follow("Writing the weights"):
            model.save_pretrained(folder)
