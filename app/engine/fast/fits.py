"""Which models the fast step serves: says in a few words what stands against one, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.native.library import GRID, LEVELS
from app.native.weights import PLAIN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel

_DENSE = ("llama", "mistral", "qwen2", "qwen3", "ernie4_5")
_MIXTURES = ("ernie4_5_moe", "mixtral", "qwen3_moe")
"""Decoders of one plan: RMSNorm (qwen3 also of queries and keys), rotary positions, grouped attention, gated SiLU, no scaling factors in
between; mixtures whose router is a softmax over all experts of which the best k are kept."""
_ROPE = ("default", "linear", "llama3", "yarn")
"""Rotations that depend on the position alone (others also on the length so far)."""


def why_not(model: PreTrainedModel) -> str | None:
    """What keeps a model from the fast step, in words for a reply's figures; None when nothing does."""
    return next(_against(model), None)


def _against(model: Any) -> Iterator[str]:
    config = model.config
    if config.model_type not in (*_DENSE, *_MIXTURES):
        yield f"not for models of type {config.model_type}"
        return
    if config.hidden_act != "silu":
        yield f"not with {config.hidden_act}"
    if getattr(config, "use_sliding_window", True) and getattr(config, "sliding_window", None):
        yield "not with a sliding window"
    if (rope := (config.rope_parameters or {}).get("rope_type", "default")) not in _ROPE:
        yield f"not with {rope} positions"
    layers = model.model.layers
    if config.hidden_size % PLAIN_COLUMNS or layers[0].self_attn.head_dim % PLAIN_COLUMNS:
        yield "not for widths like this model's"
    if not all(_known_experts(layer.mlp) for layer in layers):
        yield "only with 4-bit experts"
    elif not all(_alike(group) for layer in layers for group in _groups(layer)):
        yield "not with layers of different kinds side by side"


def _known_experts(mlp: Any) -> bool:
    """Whether a layer is dense, or its experts are what the kernels read."""
    experts = getattr(mlp, "experts", None)
    return experts is None or (hasattr(experts, "kernels") and bool(experts.kernels("down_proj")))


def _groups(layer: Any) -> Iterator[tuple[Any, ...]]:
    """Layers that read one input, which is laid out for them once."""
    attention, mlp = layer.self_attn, layer.mlp
    yield attention.q_proj, attention.k_proj, attention.v_proj
    dense = getattr(mlp, "shared_experts", None) if hasattr(mlp, "experts") else mlp
    gates = () if dense is None else (dense.gate_proj, dense.up_proj)
    yield (*gates, *(mlp.experts.kernels("gate_up_proj")[:1] if hasattr(mlp, "experts") else ()))


def _alike(group: tuple[Any, ...]) -> bool:
    return len({_is_packed(member) for member in group}) == 1 and all(_columns(m) % PLAIN_COLUMNS == 0 for m in group)


def _is_packed(member: Any) -> bool:
    weight = getattr(member, "kernel", member)
    struct = getattr(weight, "struct", None)
    return struct is not None and struct.kind in (LEVELS, GRID)


def _columns(member: Any) -> int:
    return int(member.columns if hasattr(member, "columns") else member.in_features)
