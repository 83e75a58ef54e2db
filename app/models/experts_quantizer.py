"""Teaches transformers to load mixture-of-experts models with 4-bit experts: registered with the library at import.

Checkpoints store experts one by one; the library would merge a whole layer in 16 bits first. Here each expert is read, quantized and
dropped before the next one is read, so the peak is the 4-bit size plus one expert. Linear layers go to bitsandbytes as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from transformers import BitsAndBytesConfig
from transformers.core_model_loading import (
    Concatenate,
    ConversionOps,
    MergeModulelist,
    WeightConverter,
    WeightRenaming,
)
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.quantizer_bnb_4bit import Bnb4BitHfQuantizer
from transformers.quantizers.quantizers_utils import get_module_from_name

from app.models.experts import SCALES, WEIGHTS, FourBitExperts, replace_experts
from app.models.packing import quantize

if TYPE_CHECKING:
    from transformers import PreTrainedModel

METHOD = "fader_4bit"
_STOCK_ONLY = ("load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit", "quant_method")


@register_quantization_config(METHOD)
class Experts4bitConfig(BitsAndBytesConfig):
    """BitsAndBytesConfig whose dict never says load_in_4bit: the library would take it for its own."""

    quant_method: Any
    bnb_4bit_quant_type: str
    bnb_4bit_compute_dtype: torch.dtype

    def __init__(self, **fields: Any) -> None:
        stock: Any = super().__init__
        stock(load_in_4bit=True, **{n: v for n, v in fields.items() if n not in _STOCK_ONLY})
        self.quant_method = METHOD

    def to_dict(self) -> dict[str, Any]:
        """For config.json."""
        return {name: value for name, value in super().to_dict().items() if name not in _STOCK_ONLY} | {
            "quant_method": METHOD
        }

    def to_diff_dict(self) -> dict[str, Any]:
        """The same: what equals a default of today may not tomorrow."""
        return self.to_dict()


@register_quantizer(METHOD)
class Experts4bitQuantizer(Bnb4BitHfQuantizer):
    """bitsandbytes for linear layers, FourBitExperts for experts."""

    def _process_model_before_weight_loading(self, model: Any, device_map: Any = None, **kwargs: Any) -> None:
        stock: Any = super()._process_model_before_weight_loading
        stock(model, device_map, **kwargs)
        config: Any = self.quantization_config
        replace_experts(model, config.bnb_4bit_quant_type, config.bnb_4bit_compute_dtype)

    def param_needs_quantization(self, model: PreTrainedModel, param_name: str, **kwargs: Any) -> bool:
        """True for what QuantizeParameter is to see."""
        module, name = get_module_from_name(model, param_name)
        if isinstance(module, FourBitExperts):
            return name in WEIGHTS
        return bool(super().param_needs_quantization(model, param_name, **kwargs))

    def get_quantize_ops(self) -> ConversionOps:
        """What is done with a parameter after it was read."""
        stock: Any = super().get_quantize_ops
        return QuantizeParameter(stock())

    def update_weight_conversions(self, weight_conversions: Iterable[Any], model: PreTrainedModel) -> list[Any]:
        """Puts streaming in the place of merging."""
        stock: Any = super().update_weight_conversions
        conversions: list[Any] = stock(list(weight_conversions), model)
        if self.pre_quantized:
            return conversions
        return [_streaming(c) if _merges_experts(c, model) else c for c in conversions]

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **kwargs: Any) -> PreTrainedModel:
        """Saving must not try to split the packed experts again: of the experts' conversions only renamings are kept."""
        loaded: Any = super()._process_model_after_weight_loading(model, **kwargs)
        conversions = getattr(loaded, "_weight_conversions", None) or []
        loaded._weight_conversions = [c for c in conversions if isinstance(c, WeightRenaming)]  # noqa: SLF001
        kept: PreTrainedModel = loaded
        return kept


def _merges_experts(conversion: Any, model: PreTrainedModel) -> bool:
    """Whether it is the library's plain merge of per-expert weights into a parameter that is to be 4-bit."""
    if not isinstance(conversion, WeightConverter) or len(conversion.target_patterns) != 1:
        return False
    kinds = [type(op) for op in conversion.operations]
    target = conversion.target_patterns[0]
    plain = kinds in ([MergeModulelist], [MergeModulelist, Concatenate])
    return plain and any(
        f"{name}.{weight}".endswith(target)
        for name, module in model.named_modules()
        if isinstance(module, FourBitExperts)
        for weight in WEIGHTS
    )


def _streaming(conversion: Any) -> StreamingExperts:
    made: Any = StreamingExperts(
        conversion._original_source_patterns,  # noqa: SLF001  (copy() of the library uses them too)
        conversion._original_target_patterns,  # noqa: SLF001
        [QuantizeExperts()],
    )
    made.scope_prefix, made.base_model_prefix = conversion.scope_prefix, conversion.base_model_prefix
    converter: StreamingExperts = made
    return converter


class StreamingExperts(WeightConverter):
    """A converter that hands its operation the unread tensors: functions that read one expert each."""

    __slots__ = ()

    def materialize_tensors(self) -> dict[str, list[Any]]:
        """The functions instead of what they would read."""
        return {key: self.collected_tensors.pop(key) for key in list(self.collected_tensors)}


class QuantizeExperts(ConversionOps):
    """Reads, joins and quantizes expert after expert. One source: down_proj; two: gate and up, in this order."""

    @torch.no_grad()
    def convert(
        self, input_dict: dict[str, Any], source_patterns: list[str], target_patterns: list[str], **others: Any
    ) -> dict[str, Any]:
        """Source patterns to functions that read -> codes and scales."""
        full_layer_name = others["full_layer_name"]
        module, _name = get_module_from_name(others["model"], full_layer_name)
        readers = [input_dict.pop(pattern) for pattern in source_patterns]
        missing = module.num_experts - min(len(column) for column in readers)
        if missing:
            raise ValueError(f"{missing} of {module.num_experts} experts are missing in {full_layer_name}")
        weights = (torch.cat([_read(reader) for reader in row]) for row in zip(*readers, strict=True))
        return _named(target_patterns[0], *_quantize_each(module, weights))


class QuantizeParameter(ConversionOps):
    """What a parameter gets after its conversion: experts that a checkpoint stores fused are quantized, linear layers go on."""

    def __init__(self, linear: ConversionOps) -> None:
        self._linear = linear

    @torch.no_grad()
    def convert(
        self, input_dict: dict[str, Any], source_patterns: list[str], target_patterns: list[str], **others: Any
    ) -> dict[str, Any]:
        """A parameter's name and tensor -> its quantized tensors by name."""
        name, value = next(iter(input_dict.items()))
        module, _leaf = get_module_from_name(others["model"], others["full_layer_name"])
        if not isinstance(module, FourBitExperts):
            return self._linear.convert(
                input_dict, source_patterns=source_patterns, target_patterns=target_patterns, **others
            )
        value = value[0] if isinstance(value, list) else value
        if value.dtype is torch.uint8:  # QuantizeExperts has been there
            return input_dict
        return _named(name, *_quantize_each(module, iter(value)))


def _read(reader: Callable[[], torch.Tensor] | Any) -> torch.Tensor:
    tensor: torch.Tensor = reader() if callable(reader) else reader.result()
    return tensor


def _quantize_each(module: FourBitExperts, weights: Iterable[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of all experts; the result is allocated once, each expert's 16 bits live for one turn."""
    codes: torch.Tensor | None = None
    scales: torch.Tensor | None = None
    for number, weight in enumerate(weights):
        one, its_scales = quantize(weight.to(module.compute_dtype), module.scheme)
        if codes is None or scales is None:
            codes = torch.empty((module.num_experts, *one.shape), dtype=one.dtype, device=one.device)
            scales = torch.empty((module.num_experts, *its_scales.shape), dtype=its_scales.dtype, device=one.device)
        codes[number], scales[number] = one, its_scales
    if codes is None or scales is None:
        raise ValueError("no experts in the checkpoint")
    return codes, scales


def _named(name: str, codes: torch.Tensor, scales: torch.Tensor) -> dict[str, torch.Tensor]:
    return {name: codes, name + SCALES: scales}
