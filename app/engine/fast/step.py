"""One token of one or several replies through a decoder in a single call of the project's kernels (``app/native/source/step.c``).

Of the stock forward's time for one token most is dispatch: Python modules, hooks, a cache that is copied at every token, one operator call
per layer and projection. Here nothing is left of that. Keys and values of a reply are kept in float16 from the end of its prompt on,
everything else is float32.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from app.engine.fast.replies import Replies
from app.native.library import INTEGER, POINTER, WeightStruct
from app.native.weights import Weight, from_plain

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache, PreTrainedModel

    from app.native.library import Kernels

_PRODUCTS = ("q", "k", "v", "o", "gate", "up", "down")


class LayerStruct(ctypes.Structure):
    """``layer`` in step.c."""

    _fields_ = (
        *((name, WeightStruct) for name in _PRODUCTS),
        *((name, POINTER) for name in ("before", "between", "query_norm", "key_norm", "router", "correction")),
        *((name, ctypes.POINTER(WeightStruct)) for name in ("gate_up_experts", "down_experts")),
        *((name, INTEGER) for name in ("experts", "chosen", "normalized")),
        ("floor", ctypes.c_double),
    )


class DecoderStruct(ctypes.Structure):
    """``decoder`` in step.c."""

    _fields_ = (
        *((name, INTEGER) for name in ("hidden", "heads", "kv_heads", "head", "neighbours", "layers")),
        *((name, ctypes.c_double) for name in ("eps", "scaling")),
        *((name, WeightStruct) for name in ("embedding", "output")),
        ("final", POINTER),
        ("each", ctypes.POINTER(LayerStruct)),
    )


class FastStep:
    """A model's single-token step: ``begin`` with a prefilled cache, then one call per token, then ``end``. ``replies`` go several
    together.

    Only for models that ``why_not`` has nothing against.
    """

    def __init__(self, model: PreTrainedModel, kernels: Kernels) -> None:
        whole: Any = model
        inner, first = whole.model, whole.model.layers[0]
        self.kernels = kernels
        self._held: list[Any] = []
        attention = first.self_attn
        head = int(attention.head_dim)
        layers = (LayerStruct * len(inner.layers))(*(self._layer(layer) for layer in inner.layers))
        self._struct = DecoderStruct(
            hidden=model.config.hidden_size,
            heads=attention.q_proj.out_features // head,
            kv_heads=attention.k_proj.out_features // head,
            head=head,
            neighbours=model.config.model_type in NEIGHBOURS,
            layers=len(inner.layers),
            eps=first.input_layernorm.variance_epsilon,
            scaling=attention.scaling,
            embedding=self._weight(inner.embed_tokens),
            output=self._weight(whole.lm_head),
            final=self._numbers(inner.norm.weight),
            each=layers,
        )
        self._held.append(layers)
        rotary, neighbours = inner.rotary_emb, bool(self._struct.neighbours)
        self.replies = Replies(kernels, self._struct, lambda room: turns(rotary, room, neighbours=neighbours))

    def _layer(self, layer: Any) -> LayerStruct:
        attention, mlp = layer.self_attn, layer.mlp
        made = LayerStruct(
            q=self._weight(attention.q_proj),
            k=self._weight(attention.k_proj),
            v=self._weight(attention.v_proj),
            o=self._weight(attention.o_proj),
            before=self._numbers(layer.input_layernorm.weight),
            between=self._numbers(layer.post_attention_layernorm.weight),
            query_norm=self._numbers(attention.q_norm.weight) if hasattr(attention, "q_norm") else None,
            key_norm=self._numbers(attention.k_norm.weight) if hasattr(attention, "k_norm") else None,
        )
        dense = getattr(mlp, "shared_experts", None) if hasattr(mlp, "experts") else mlp
        if dense is not None:
            made.gate, made.up = self._weight(dense.gate_proj), self._weight(dense.up_proj)
            made.down = self._weight(dense.down_proj)
        if hasattr(mlp, "experts"):
            self._mixture(made, mlp)
        return made

    def _mixture(self, made: LayerStruct, mlp: Any) -> None:
        """What a token's choice of experts needs. Only models whose router is softmax, best k, normalized (see ``fits``)."""
        router, experts = mlp.gate, mlp.experts
        statics = getattr(router, "moe_statics", None)
        made.router = self._numbers(router.weight)
        made.correction = None if statics is None else self._numbers(statics.e_score_correction_bias.reshape(-1))
        made.gate_up_experts = self._array(experts.kernels("gate_up_proj"))
        made.down_experts = self._array(experts.kernels("down_proj"))
        made.experts, made.chosen = experts.num_experts, router.top_k
        made.normalized = bool(getattr(router, "norm_topk_prob", True))
        made.floor = float(getattr(router, "norm_min", 0.0))

    def _array(self, weights: list[Weight]) -> Any:
        array = (WeightStruct * len(weights))(*(weight.struct for weight in weights))
        self._held += [array, weights]
        return array

    def _weight(self, layer: Any) -> WeightStruct:
        weight = getattr(layer, "kernel", None)
        if weight is None:
            weight = from_plain(self.kernels, layer.weight, getattr(layer, "bias", None))
        self._held.append(weight)
        struct: WeightStruct = weight.struct
        return struct

    def _numbers(self, tensor: torch.Tensor) -> int:
        held = tensor.detach().float().contiguous()
        self._held.append(held)
        return held.data_ptr()

    def begin(self, cache: DynamicCache) -> None:
        """Take over the keys and values of a prefilled cache, [1, key-value heads, tokens, head size] per layer; it is empty then."""
        self.replies.begin(cache)

    def end(self) -> None:
        """Give the memory back."""
        self.replies.end()

    def __call__(self, token: int) -> torch.Tensor:
        """The logits after one more token of the one reply, float32 [1, 1, vocabulary]."""
        return self.replies.step([token])[None]


NEIGHBOURS = ("ernie4_5", "ernie4_5_moe")
"""Families that turn pairs of neighbours; the others pair a value of the first half with one of the second."""


def turns(rotary: Any, room: int, *, neighbours: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of positions 0 … room - 1, float32 [room, head size], from the model's own rotary embedding.

    Each place has the factor of its own value, and, in the sines, that of its partner with the sign it is added with.
    """
    import torch

    cos, sin = (table[0].float() for table in rotary(torch.empty(0, dtype=torch.float32), torch.arange(room)[None]))
    half = cos.shape[-1] // 2
    if neighbours:
        cos = cos[:, :half].repeat_interleave(2, dim=-1)
        sin = torch.stack([-sin[:, :half], sin[:, :half]], dim=-1).flatten(-2)
    else:
        sin = torch.cat([-sin[:, :half], sin[:, half:]], dim=-1)
    return cos.contiguous(), sin.contiguous()
