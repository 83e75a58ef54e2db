"""One token through a llama-like decoder whose layers are 4-bit on a CPU: the same numbers as the stock forward, without what it costs
to be general.

Of the stock forward's time for one token most is dispatch: Python modules, hooks, a growing cache that is copied at every token, keys
and values repeated for every head, one operator call per layer and projection. Here keys and values stand in one buffer, q/k/v and
gate/up are one product each, and every rounding to bfloat16 is where the stock forward has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.engine.fast.positions import Positions
from app.engine.fast.products import Product

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache, PreTrainedModel

ROOM = 512
"""Positions by which the buffer of keys and values grows."""


@dataclass(slots=True)
class _Layer:
    """One decoder layer: its products, the weights of its two norms (bfloat16 [width]), and those of the norms of queries and keys
    where it has them (bfloat16 [heads + key-value heads, head size])."""

    qkv: Product
    output: Product
    gate_up: Product
    down: Product
    before: torch.Tensor
    between: torch.Tensor
    heads: torch.Tensor | None


class FastStep:
    """A model's single-token step. One reply at a time: ``begin`` with a prefilled cache, then one call per token, then ``end``.

    Only for models that ``why_not`` has nothing against.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        whole: Any = model
        inner, first = whole.model, whole.model.layers[0]
        attention = first.self_attn
        self.head_dim = int(attention.head_dim)
        self.heads = attention.q_proj.out_features // self.head_dim
        self.kv_heads = attention.k_proj.out_features // self.head_dim
        self.scaling = float(attention.scaling)
        self.eps = float(first.input_layernorm.variance_epsilon)
        self.embedding, self.head = inner.embed_tokens.weight, whole.lm_head
        self.final = inner.norm.weight.data
        self.positions = Positions(inner.rotary_emb, model.config.model_type)
        self.layers = [self._layer(layer) for layer in inner.layers]
        direct = [product.go_direct() for product in self._products()]
        self.direct = all(direct)
        self.length = 0
        self._past: torch.Tensor | None = None

    def _layer(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return _Layer(
            Product([attention.q_proj, attention.k_proj, attention.v_proj]),
            Product([attention.o_proj]),
            Product([mlp.gate_proj, mlp.up_proj]),
            Product([mlp.down_proj]),
            layer.input_layernorm.weight.data,
            layer.post_attention_layernorm.weight.data,
            self._head_norms(attention),
        )

    def _head_norms(self, attention: Any) -> torch.Tensor | None:
        import torch

        if not hasattr(attention, "q_norm"):
            return None
        query, key = attention.q_norm.weight.data, attention.k_norm.weight.data
        return torch.cat([query.expand(self.heads, -1), key.expand(self.kv_heads, -1)])

    def _products(self) -> list[Product]:
        return [product for layer in self.layers for product in (layer.qkv, layer.output, layer.gate_up, layer.down)]

    def begin(self, cache: DynamicCache) -> None:
        """Take over the keys and values of a prefilled cache, [1, key-value heads, tokens, head size] per layer; it is empty then."""
        import torch

        self.length = cache.get_seq_length()
        self._make_room(self.length + 1)
        assert self._past is not None  # noqa: S101
        for index, layer in enumerate(cache.layers):
            full: Any = layer
            self._past[index, 0, :, : self.length] = full.keys[0]
            self._past[index, 1, :, : self.length] = full.values[0]
            full.keys = full.values = torch.empty(0)

    def end(self) -> None:
        """Give the buffers back."""
        self._past = None
        self.positions.clear()
        self.length = 0

    def _make_room(self, positions: int) -> None:
        """Buffers for at least so many positions: keys and values [layers, 2, key-value heads, positions, head size]."""
        import torch

        room = -(-positions // ROOM) * ROOM
        past = torch.empty(len(self.layers), 2, self.kv_heads, room, self.head_dim, dtype=torch.bfloat16)
        if self._past is not None:
            past[:, :, :, : self.length] = self._past[:, :, :, : self.length]
        self._past = past
        self.positions.make_room(past, room)

    def __call__(self, token: int) -> torch.Tensor:
        """The logits after one more token, [1, 1, vocabulary] in the model's dtype."""
        import torch

        with torch.inference_mode():
            if self._past is None or self.length == self._past.shape[3]:
                self._make_room(self.length + 1)
            hidden = self._through_layers(self.embedding[token].clone())
            last = torch.empty_like(hidden)
            self._norm(hidden, self.final, last)
            logits: torch.Tensor = self.head(last[None, None])
        return logits

    def _through_layers(self, hidden: torch.Tensor) -> torch.Tensor:
        import torch

        past, at = self._past, self.length
        assert past is not None  # noqa: S101
        self.length = at + 1
        tables = self.positions.at(at)
        slots = past[:, :, :, at].unbind(0)
        keys, values = past[:, 0, None, :, : at + 1].unbind(0), past[:, 1, None, :, : at + 1].unbind(0)
        silu = torch.nn.functional.silu
        for layer, slot, key, value in zip(self.layers, slots, keys, values, strict=True):
            self._norm(hidden, layer.before, layer.qkv.source)
            self._attend(layer, tables, slot, key, value)
            hidden += layer.output()
            self._norm(hidden, layer.between, layer.gate_up.source)
            gate, up = layer.gate_up().chunk(2)
            torch.mul(silu(gate), up, out=layer.down.source)
            hidden += layer.down()
        return hidden

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
        """RMSNorm of [width] as the model has it: scaled in float32, rounded, times the weight."""
        import torch

        exact = hidden.float()
        mean = torch.dot(exact, exact).item() / exact.shape[0]
        torch.mul((exact * (1 / math.sqrt(mean + self.eps))).bfloat16(), weight, out=out)

    def _norm_heads(self, heads: torch.Tensor) -> torch.Tensor:
        """RMSNorm of each of [heads, head size], without its weight."""
        exact = heads.float()
        return (exact * (exact.square().mean(-1, keepdim=True) + self.eps).rsqrt()).bfloat16()

    def _attend(
        self,
        layer: _Layer,
        tables: tuple[torch.Tensor, torch.Tensor],
        slot: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> None:
        """Attention of one position over [1, key-value heads, tokens, head size]; its own keys and values go into ``slot``.

        The heads that share keys stand as rows of one query: no key is repeated.
        """
        import torch

        qkv, heads, shared = layer.qkv().view(-1, self.head_dim), self.heads, self.kv_heads
        turned = qkv[: heads + shared]
        if layer.heads is not None:
            turned.copy_(self._norm_heads(turned) * layer.heads)
        turned.copy_(self.positions.turn(turned, tables))
        slot.copy_(qkv[heads:].view(2, shared, self.head_dim))
        query = qkv[:heads].view(1, shared, heads // shared, self.head_dim)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=self.scaling)
        layer.output.source.view(1, shared, heads // shared, self.head_dim).copy_(mixed)
