"""Reads off a loaded model what the rest of Fader needs to know about it, as plain values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.conversation import Json
from app.models import choices
from app.models.facts import ModelFacts
from app.models.opening import EXPERT_FIELDS
from app.models.options import LoadOptions
from app.models.source import Source

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

GENERATION = "generation_config.json"
_LENGTHS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
_LONGEST_BELIEVABLE = 1 << 24
_UNKNOWN_LENGTH = 2048
_ROUND_TRIP = "Hello, world!\n  2 + 2 = 4 – naïve café, 你好 世界 🙂"


def describe(
    source: Source,
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    options: LoadOptions,
    origin: Mapping[str, Json],
) -> ModelFacts:
    """All facts about a model loaded from ``folder``; ``origin`` identifies its weights (hash or revision)."""
    text = model.config.get_text_config()
    quantization = _quantization(model)
    return ModelFacts(
        name=source.name,
        label=source.label,
        architecture=(model.config.architectures or [type(model).__name__])[0],
        context_length=_context_length(text, tokenizer),
        vocab_size=int(text.vocab_size),
        num_layers=int(text.num_hidden_layers),
        device=str(model.device.type),
        quantization=quantization,
        attention=str(model.config._attn_implementation),  # noqa: SLF001  (transformers offers no public name)
        is_encoder_decoder=bool(model.config.is_encoder_decoder),
        has_chat_template=bool(tokenizer.chat_template),
        has_mtp_layers=_has_mtp_layers(text),
        supports_early_exit=_supports_early_exit(model),
        supports_static_cache=_supports_static_cache(model),
        supports_token_healing=_supports_token_healing(model, tokenizer),
        num_experts=next((int(getattr(text, name)) for name in EXPERT_FIELDS if getattr(text, name, None)), 0),
        eos_token_ids=_eos(model),
        generation_defaults=generation_defaults(folder, model),
        fingerprint=_fingerprint(source, model, options, origin, quantization),
        load_options=choices.as_json(options),
    )


def generation_defaults(folder: Path, model: PreTrainedModel) -> dict[str, Json]:
    """The explicit non-null fields of the model's own generation_config.json; those derived from its config without one."""
    file = folder / GENERATION
    if file.is_file():
        fields: dict[str, Json] = json.loads(file.read_text(encoding="utf-8"))
    else:
        fields = model.generation_config.to_diff_dict()
    return {name: value for name, value in fields.items() if value is not None and _is_setting(name)}


def _is_setting(name: str) -> bool:
    return not name.startswith("_") and name != "transformers_version"


def round_trip_warning(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """A sentence when the tokenizer doesn't give back the text it was given (a sign of a bad conversion)."""
    ids = tokenizer(_ROUND_TRIP, add_special_tokens=False)["input_ids"]
    back = str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
    if back.strip() == _ROUND_TRIP:
        return None
    return "The tokenizer changes text on its way through (accents, spaces or other scripts); replies may look odd."


def _context_length(text: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int:
    for name in _LENGTHS:
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    longest = int(tokenizer.model_max_length)
    return longest if longest < _LONGEST_BELIEVABLE else _UNKNOWN_LENGTH


def _quantization(model: PreTrainedModel) -> str:
    from app.models.grid_quantizer import GridConfig

    config: Any = getattr(model.config, "quantization_config", None)
    if config is None:
        return "none"
    if isinstance(config, GridConfig):
        return "int4"
    kind = getattr(config, "bnb_4bit_quant_type", None)
    if kind and getattr(config, "load_in_4bit", True):
        return str(kind)
    method = getattr(config, "quant_method", "unknown")
    return str(getattr(method, "value", method))


def _has_mtp_layers(text: PreTrainedConfig) -> bool:
    """Multi-token prediction needs the layers in the checkpoint and the library's config for them."""
    return bool(getattr(text, "num_mtp_layers", None)) and hasattr(text, "get_mtp_config")


def _supports_early_exit(model: PreTrainedModel) -> bool:
    """assistant_early_exit lowers config.num_hidden_layers for a draft; it works where the forward reads that number."""
    base = getattr(model, model.base_model_prefix, None)
    if model.config.is_encoder_decoder or base is None:
        return False
    return "config.num_hidden_layers]" in inspect.getsource(type(base).forward)


def _supports_static_cache(model: Any) -> bool:
    """What generate itself asks; recurrent models (mamba and others) bring caches of their own."""
    return bool(model._supports_default_dynamic_cache())  # noqa: SLF001


def _supports_token_healing(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> bool:
    """The heal_tokens of generate compares ids with both of these and cuts the decoder's prompt."""
    marks = (tokenizer.bos_token_id, tokenizer.pad_token_id)
    return None not in marks and not model.config.is_encoder_decoder


def _eos(model: PreTrainedModel) -> tuple[int, ...]:
    eos = model.generation_config.eos_token_id
    return tuple(eos) if isinstance(eos, list) else (() if eos is None else (int(eos),))


def _fingerprint(
    source: Source, model: PreTrainedModel, options: LoadOptions, origin: Mapping[str, Json], quantization: str
) -> dict[str, Json]:
    import torch

    return {
        "name": source.name,
        "source": dict(origin),
        "quantization": quantization,
        "double_quant": options.quantization.double_quant,
        "compute_dtype": options.quantization.compute_dtype,
        "attention": str(model.config._attn_implementation),  # noqa: SLF001
        "device": str(model.device.type),
        "threads": torch.get_num_threads(),
        "transformers": version("transformers"),
        "bitsandbytes": version("bitsandbytes"),
        "torch": torch.__version__,
    }
