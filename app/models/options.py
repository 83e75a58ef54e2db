"""How a model is to be loaded, as frozen values; a prepared checkpoint is valid for exactly one set of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.conversation import Json

Scheme = Literal["auto", "nf4", "fp4", "int4", "none"]
ComputeDtype = Literal["bfloat16", "float16", "float32"]
Attention = Literal["auto", "sdpa", "eager", "flash_attention_2"]


@dataclass(frozen=True, slots=True)
class Quantization:
    """4-bit through bitsandbytes (NF4 or FP4), on the integer grid of the source (int4), or none; auto is one of them by the source
    (``app.models.schemes``). ``double_quant`` stores the scales of bitsandbytes' schemes in 8 bits as well."""

    scheme: Scheme = "auto"
    double_quant: bool = True
    compute_dtype: ComputeDtype = "bfloat16"

    @property
    def slug(self) -> str:
        """A short name for folders and the page, e.g. ``nf4-double-bfloat16``."""
        parts = [self.scheme, *(["double"] if self.double_quant and self.bitsandbytes else []), self.compute_dtype]
        return "-".join(parts)

    @property
    def four_bit(self) -> bool:
        """Whether weights are quantized at all."""
        return self.scheme != "none"

    @property
    def bitsandbytes(self) -> bool:
        """Whether bitsandbytes makes the 4-bit weights."""
        return self.scheme in ("nf4", "fp4")

    def as_json(self) -> dict[str, Json]:
        """For manifests and fingerprints."""
        return {"scheme": self.scheme, "double_quant": self.double_quant, "compute_dtype": self.compute_dtype}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the user can choose about a load; ``app.models.choices`` tells it in words.

    ``attention``: transformers' attn_implementation, auto the quickest that the architecture has. ``device``: auto takes a GPU if there
    is one, cuda shares a model out over all of them, cuda:1 is the second alone. ``save_prepared``: keep the quantized checkpoint in
    the cache folder, so that the next start is quick.
    """

    quantization: Quantization = field(default_factory=Quantization)
    attention: Attention = "auto"
    device: str = "auto"
    save_prepared: bool = True
