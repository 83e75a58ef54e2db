"""Which models the fast step serves: says in a few words what stands against one, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.models.packing import BLOCKSIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel

_FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "ernie4_5")
"""Decoders of one plan: RMSNorm (qwen3 also of queries and keys), rotary positions, grouped attention, gated SiLU, no scaling factors in
between."""
_ROPE = ("default", "linear", "llama3", "yarn")
"""Rotations that depend on the position alone (others also on the length so far)."""


def why_not(model: PreTrainedModel) -> str | None:
    """What keeps a model from the fast step, in words for a reply's figures; None when nothing does."""
    return next(_against(model), None)


def _against(model: Any) -> Iterator[str]:
    config = model.config
    if (processes := getattr(model, "tp_size", None) or 1) > 1:
        yield f"not for a model spread over {processes} processes"
    if model.device.type != "cpu":
        yield f"not for {model.device.type}"
    if config.model_type not in _FAMILIES:
        yield f"not for models of type {config.model_type}"
        return
    if config.hidden_act != "silu":
        yield f"not with {config.hidden_act}"
    if getattr(config, "use_sliding_window", True) and getattr(config, "sliding_window", None):
        yield "not with a sliding window"
    if (rope := (config.rope_parameters or {}).get("rope_type", "default")) not in _ROPE:
        yield f"not with {rope} positions"
    if model.get_input_embeddings().weight.dtype != _bfloat16():
        yield "only in bfloat16"
    if config._attn_implementation != "sdpa":  # noqa: SLF001  (transformers offers no public name)
        yield f"not with {config._attn_implementation} attention"  # noqa: SLF001
    if not all(_packed(layer) for block in model.model.layers for layer in _projections(block)):
        yield "only with NF4 weights on a processor with AVX512-BF16"


def _projections(block: Any) -> tuple[Any, ...]:
    attention, mlp = block.self_attn, block.mlp
    return (
        *(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj),
        *(mlp.gate_proj, mlp.up_proj, mlp.down_proj),
    )


def _packed(layer: Any) -> bool:
    """Whether a layer is NF4 in the kernel's layout, computing in bfloat16. bitsandbytes repacks at the first forward."""
    state: Any = getattr(getattr(layer, "weight", None), "quant_state", None)
    return (
        bool(getattr(state, "packing_format_for_cpu", False))
        and state.quant_type == "nf4"
        and state.blocksize == BLOCKSIZE
        and layer.compute_dtype == _bfloat16()
    )


def _bfloat16() -> Any:
    import torch

    return torch.bfloat16
