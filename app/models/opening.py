"""The one call of from_pretrained: a complete model in evaluation mode from a local folder, never with code from its author."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.errors import ModelDamaged, UnsupportedModel
from app.models.devices import placement, refuse_spill
from app.models.options import LoadOptions

if TYPE_CHECKING:
    from transformers import BitsAndBytesConfig, PreTrainedModel

EXPERT_FIELDS = ("num_experts", "num_local_experts", "moe_num_experts", "n_routed_experts")
PACKED_ROWS = 32
PACKED_COLUMNS = 64
_NAMED = 3


def bitsandbytes_config(options: LoadOptions, *, experts: bool) -> BitsAndBytesConfig:
    """4-bit settings for transformers; the output layer keeps 16 bits (it may be tied to the embeddings).

    ``experts``: for a mixture of experts, whose fused weights bitsandbytes itself leaves in 16 bits.
    """
    from transformers import BitsAndBytesConfig

    from app.models.experts_quantizer import Experts4bitConfig

    fields = {
        "bnb_4bit_quant_type": options.quantization.scheme,
        "bnb_4bit_compute_dtype": options.quantization.compute_dtype,
        "bnb_4bit_use_double_quant": options.quantization.double_quant,
    }
    if experts:
        return Experts4bitConfig(**fields)
    stock: Any = BitsAndBytesConfig  # its __init__ has no types
    made: BitsAndBytesConfig = stock(load_in_4bit=True, **fields)
    return made


def has_experts(config: Any) -> bool:
    """Whether a config (object or JSON) describes a mixture of experts."""
    fields = config if isinstance(config, dict) else {name: getattr(config, name, None) for name in EXPERT_FIELDS}
    return any(fields.get(name) for name in EXPERT_FIELDS)


def open_model(folder: Path, options: LoadOptions, *, quantize: bool, processes: int = 1) -> PreTrainedModel:
    """Load a folder; ``quantize`` puts 16-bit weights into 4 bits while they stream in (leave it off for a 4-bit checkpoint).

    With several ``processes``, which must have joined and all be here, this one's part under the library's tensor-parallel plan.

    Raises ModelDamaged when weights are missing or have other shapes than config.json says, and whatever transformers raises.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    from app.models import experts_quantizer, grid_quantizer  # register the methods that prepared models name

    assert experts_quantizer.METHOD and grid_quantizer.METHOD  # noqa: S101, PT018
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    experts = has_experts(config.get_text_config())
    on_grid = quantize and options.quantization.scheme == "int4"
    if on_grid and experts:
        raise UnsupportedModel("The int4 grid is not for mixtures of experts. Choose NF4 for the weights.")
    extra: dict[str, Any] = {}
    if quantize and not on_grid:
        extra = {"quantization_config": bitsandbytes_config(options, experts=experts)}
    loaded: Any = auto.from_pretrained(
        folder,
        dtype=torch.float32 if on_grid else getattr(torch, options.quantization.compute_dtype),
        attn_implementation=None if options.attention == "auto" else options.attention,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
        **_placement(options, processes),
        **extra,
    )
    model, info = loaded
    refuse_spill(model, folder.name)
    _check_complete(folder, info, model)
    _spare_odd_shapes(model)
    if on_grid:
        grid_quantizer.put_on_grid(model)
        model.to(getattr(torch, options.quantization.compute_dtype))
    evaluated: PreTrainedModel = model.eval()
    return evaluated


def _placement(options: LoadOptions, processes: int) -> dict[str, Any]:
    """Where the weights go: shared out among processes, or by a device map."""
    if processes == 1:
        return placement(options)
    from transformers.distributed.configuration_utils import DistributedConfig

    return {"distributed_config": DistributedConfig(tp_plan="auto", tp_size=processes)}


def _check_complete(folder: Path, info: dict[str, Any], model: PreTrainedModel) -> None:
    missing = sorted(info.get("missing_keys", ()))
    odd = sorted(str(entry[0] if isinstance(entry, tuple) else entry) for entry in info.get("mismatched_keys", ()))
    odd += _odd_four_bit(model)
    errors = list(info.get("conversion_errors", {}) or info.get("error_msgs", ()))
    for names, what in (
        (missing, "are missing"),
        (odd, "have other shapes than its config says"),
        (errors, "can't be read"),
    ):
        if names:
            raise ModelDamaged(
                f"{folder.name} is incomplete: {len(names)} weights {what}, first {', '.join(names[:_NAMED])}."
            )


def _odd_four_bit(model: PreTrainedModel) -> list[str]:
    """Layers whose packed weight has another shape than the layer: nothing else compares them."""
    return [
        name
        for name, module in model.named_modules()
        if hasattr(getattr(module, "weight", None), "quant_state")
        and tuple(module.weight.quant_state.shape) != (module.out_features, module.in_features)
    ]


def _spare_odd_shapes(model: PreTrainedModel) -> None:
    """Keep bitsandbytes from repacking layers whose shape its AVX512-BF16 layout can't hold; they'd fail at the first token."""
    for module in four_bit_layers(model):
        if module.out_features % PACKED_ROWS or module.in_features % PACKED_COLUMNS:
            module.support_avx512bf16_for_cpu = False


def four_bit_layers(model: PreTrainedModel) -> Iterator[Any]:
    """Every Linear4bit of a model. Where bitsandbytes, which takes a second to import, isn't there yet, there can be none."""
    library: Any = sys.modules.get("bitsandbytes.nn.modules")
    return (module for module in model.modules() if library and isinstance(module, library.Linear4bit))
