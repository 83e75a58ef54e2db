"""Which 4-bit scheme suits a model: the one that loses least of what its source holds."""

from __future__ import annotations

import struct
from dataclasses import replace
from math import prod
from pathlib import Path

from app.models.devices import cards_for
from app.models.options import LoadOptions, Scheme
from app.models.source import Source, SourceKind

_ON_A_GRID = ("Q4_0", "Q4_1", "Q4_K")
"""GGUF's formats with 16 even steps for every 32 weights. Put into NF4 they'd be rounded twice (perplexity 8.7 -> 11.6, built-in model)."""
_EXPERTS = "_exps."


def settled(options: LoadOptions, source: Source) -> LoadOptions:
    """The options with ``auto`` replaced: int4 where the source's weights lie on such a grid already, NF4 for all others.

    Cards get NF4 in any case: what multiplies with int4 weights quickly are kernels for processors.
    """
    if options.quantization.scheme != "auto":
        return options
    scheme: Scheme = "int4" if not cards_for(options) and _lies_on_a_grid(source) else "nf4"
    return replace(options, quantization=replace(options.quantization, scheme=scheme))


def _lies_on_a_grid(source: Source) -> bool:
    if source.kind is SourceKind.BUILTIN:
        return True
    return source.kind is SourceKind.GGUF and source.path is not None and _mostly_on_a_grid(source.path)


def _mostly_on_a_grid(file: Path) -> bool:
    """Whether more than half of the weights do, and none is an expert's; a file that can't be read is refused elsewhere."""
    from gguf import GGMLQuantizationType
    from transformers.integrations.gguf.reader import GgufHeader

    try:
        tensors = GgufHeader.from_file(str(file)).tensors
    except (OSError, ValueError, struct.error):
        return False
    sizes = [(prod(tensor.shape), GGMLQuantizationType(tensor.ggml_type).name) for tensor in tensors]
    on_grid = sum(size for size, kind in sizes if kind in _ON_A_GRID)
    return not any(_EXPERTS in tensor.name for tensor in tensors) and on_grid > sum(size for size, _ in sizes) / 2
