"""Which models can be spread over how many processes: says what stands against it before anything is started."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from app.errors import RefusedInput, UnsupportedModel
from app.models.devices import cards

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

UNQUANTIZED = (
    "Spread over {size} processes, and in {dtype}: the library loads 4-bit weights under a tensor-parallel plan without their scales, "
    "and the first token fails. The figures are of one process; each of the others holds as much."
)
"""What a load report says (transformers 5.24 with bitsandbytes 0.50)."""


def check_spread(config: PreTrainedConfig, label: str, size: int, device: str = "auto") -> None:
    """Raise RefusedInput or UnsupportedModel, with a way out, unless the model can be spread over ``size`` processes here."""
    text: Any = config.get_text_config()
    _check_devices(size, device)
    if config.is_encoder_decoder:
        raise UnsupportedModel(f"{label} has an encoder and a decoder; only models that just decode can be spread.")
    if getattr(config, "quantization_config", None):
        raise UnsupportedModel(
            f"{label} is stored quantized, and quantized weights can't be spread over processes. Take its 16-bit version, "
            "or start without --tensor-parallel."
        )
    if not getattr(text, "base_model_tp_plan", None):
        raise UnsupportedModel(
            f"The library has no plan for spreading {label} ({text.model_type}). Start without --tensor-parallel."
        )
    _check_heads(text, label, size)


def _check_devices(size: int, device: str) -> None:
    """One card for each process, where there are cards."""
    there = cards()
    if there and device not in ("auto", "cuda"):
        raise RefusedInput(
            f"--tensor-parallel takes the graphics cards in order, so a model can't be put on {device}; choose auto."
        )
    if there and size > there:
        have = "is one graphics card" if there == 1 else f"are {there} graphics cards"
        raise RefusedInput(f"--tensor-parallel {size} needs a graphics card for each process, and here there {have}.")


def _check_heads(text: Any, label: str, size: int) -> None:
    """Attention is shared out by whole heads, the experts of a mixture by equal parts of their width."""
    parts = {
        "attention heads": int(text.num_attention_heads),
        "key-value heads": int(getattr(text, "num_key_value_heads", None) or text.num_attention_heads),
    }
    if width := getattr(text, "moe_intermediate_size", None):
        parts["columns in an expert"] = int(width)
    odd = [f"{count} {what}" for what, count in parts.items() if count % size]
    if odd:
        common = gcd(*parts.values())
        possible = [str(n) for n in range(2, min(common, 64) + 1) if common % n == 0]
        way = f"--tensor-parallel {' or '.join(possible)} would work." if possible else "It runs in one process only."
        raise RefusedInput(f"{label} can't be spread over {size} processes: it has {' and '.join(odd)}. {way}")
