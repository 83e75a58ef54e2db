"""Teaches transformers to read models on their own grid (``grid.py``): registered with the library at import; and makes such models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from app.models.grid import GROUP, GridEmbedding, GridHead, GridLinear, to_grid, to_grid8

if TYPE_CHECKING:
    from transformers import PreTrainedModel

METHOD = "fader_grid"


@register_quantization_config(METHOD)
class GridConfig(QuantizationConfigMixin):
    """``embeddings``: these are 8-bit, and shared with the output layer where the model ties the two."""

    def __init__(self, *, embeddings: bool = False, **_unknown: Any) -> None:
        self.quant_method: Any = METHOD
        self.embeddings = embeddings


@register_quantizer(METHOD)
class GridQuantizer(HfQuantizer):
    """Reads what ``put_on_grid`` made; it quantizes nothing itself."""

    requires_calibration = True

    def __init__(self, quantization_config: Any, **kwargs: Any) -> None:
        stock: Any = super().__init__
        stock(quantization_config, **kwargs)
        self.config: Any = quantization_config

    def _process_model_before_weight_loading(self, model: Any, **_kwargs: Any) -> None:
        replace_modules(model, embeddings=self.config.embeddings)

    def is_serializable(self) -> bool:
        """A model on a grid can be saved."""
        return True

    @property
    def is_trainable(self) -> bool:
        """Codes can't be trained."""
        return False


def _layers(model: PreTrainedModel) -> list[tuple[str, nn.Linear]]:
    head = model.get_output_embeddings()
    return [
        (name, module)
        for name, module in model.named_modules()
        if type(module) is nn.Linear and module is not head and module.in_features % GROUP == 0
    ]


def _ties_embeddings(model: PreTrainedModel) -> bool:
    embedding: Any = model.get_input_embeddings()
    return bool(getattr(model.config, "tie_word_embeddings", False)) and embedding.embedding_dim % GROUP == 0


def replace_modules(model: PreTrainedModel, *, embeddings: bool) -> None:
    """Put empty modules of the final shapes in place of a fresh model's, for the loader to fill."""
    for name, layer in _layers(model):
        fresh = GridLinear(layer.in_features, layer.out_features, layer.bias, layer.weight.device)
        model.set_submodule(name, fresh)
    if embeddings:
        old: Any = model.get_input_embeddings()
        _share(model, GridEmbedding(old.num_embeddings, old.embedding_dim, old.weight.dtype, old.weight.device))


def _share(model: Any, embedding: GridEmbedding) -> None:
    """One embedding for input and output; nothing is left for the library to tie."""
    model.set_input_embeddings(embedding)
    model.set_output_embeddings(GridHead(embedding))
    model._tied_weights_keys = None  # noqa: SLF001  (there is no public way to say so)
    model.all_tied_weights_keys = {}


@torch.no_grad()
def put_on_grid(model: Any) -> None:
    """Turn a dense model into one on its grid, layer by layer; it can be saved then, and read again."""
    for name, layer in _layers(model):
        fresh = GridLinear(layer.in_features, layer.out_features, layer.bias)
        fresh.codes.data, fresh.scales.data, fresh.offsets.data = to_grid(layer.weight)
        model.set_submodule(name, fresh)
    if embeddings := _ties_embeddings(model):
        old = model.get_input_embeddings()
        fresh_embedding = GridEmbedding(old.num_embeddings, old.embedding_dim, torch.bfloat16)
        fresh_embedding.codes.data, fresh_embedding.scales.data = to_grid8(old.weight)
        _share(model, fresh_embedding)
    model.config.quantization_config = GridConfig(embeddings=embeddings)
    model.hf_quantizer = GridQuantizer(model.config.quantization_config)
