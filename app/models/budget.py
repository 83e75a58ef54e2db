"""What loading a model would take, before anything is loaded: weights by dtype, KV cache, working space, against what is free.

Works from the config alone: the model is built without memory (on the meta device) and its tensors are counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.errors import ModelDamaged, OutOfMemory
from app.models import gguf_source, hub, prepared
from app.models.builtin import builtin_gguf
from app.models.catalogue import resolve
from app.models.devices import cards_for, free_bytes
from app.models.folder import check_architecture, read_config
from app.models.options import LoadOptions, Quantization
from app.models.quiet import listening
from app.models.schemes import settled
from app.models.source import Source, SourceKind
from app.models.translate import translated
from app.settings import Settings

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel

BYTES_PER_EXPERT_4BIT = 0.5 + 2 / 64
"""A nibble, and a 16-bit scale for every 64 of them."""
BYTES_PER_4BIT = BYTES_PER_EXPERT_4BIT + 1 / 64
"""The same beside bitsandbytes' own scales in 8 bits (double quant; 4 bytes without it)."""
BYTES_ON_GRID = 0.5 + 4 / 32
"""A nibble, and a 16-bit scale and offset for every 32."""
BYTES_ON_GRID8 = 1 + 2 / 32
BYTES_PER_16BIT = 2
BYTES_PER_32BIT = 4
_DEFAULT_CONTEXT = 4096
_LIBRARIES = 350 << 20
_PREFILL_ROWS = 128
_TIGHT = 0.8


@dataclass(frozen=True, slots=True)
class Estimate:
    """All sizes in bytes. ``context`` is the number of tokens that ``kv_bytes`` is for; ``verdict`` a sentence for the user.

    ``fits_alone``: it fits once the model in memory is freed.
    """

    name: str
    parameters: int
    quantization: str
    weights_by_dtype: dict[str, int]
    weights_bytes: int
    context: int
    kv_bytes: int
    working_bytes: int
    needed_bytes: int
    free_bytes: int
    fits: bool
    fits_alone: bool
    verdict: str


def estimate(
    name: str,
    settings: Settings,
    *,
    options: LoadOptions | None = None,
    context: int | None = None,
    in_use: int = 0,
) -> Estimate:
    """Estimate a load of ``name`` with ``context`` tokens (default: the model's own length, at most 4,096). ``in_use``: bytes that
    the model in memory would give back.

    Raises ModelNotFound, ModelDamaged or UnsupportedModel. A hub id needs its config.json in the cache or a network.
    """
    options = options or LoadOptions()
    source = resolve(name)
    if source.kind is SourceKind.REMOTE:
        return _elsewhere(source, options)
    if settings.tensor_parallel > 1:  # what is spread over processes is not quantized
        options = replace(options, quantization=replace(options.quantization, scheme="none"))
    options = settled(options, source)
    with translated(source.label), listening():
        config = _config(source, settings, options)
        return estimate_config(config, source.name, options, context=context, in_use=in_use)


def _elsewhere(source: Source, options: LoadOptions) -> Estimate:
    verdict = f"{source.label} runs on a server: it takes no memory here."
    free = free_bytes(options)
    return Estimate(source.name, 0, "", {}, 0, 0, 0, 0, 0, free, fits=True, fits_alone=True, verdict=verdict)


def estimate_config(
    config: PreTrainedConfig, name: str, options: LoadOptions, *, context: int | None = None, in_use: int = 0
) -> Estimate:
    """The same from a config that is already there."""
    model = _empty_model(config)
    weights, parameters, largest = _weigh_empty(model, options.quantization, config)
    text = config.get_text_config()
    longest = int(getattr(text, "max_position_embeddings", 0) or _DEFAULT_CONTEXT)
    tokens = context or min(longest, _DEFAULT_CONTEXT)
    kv = kv_bytes_per_token(text, options.quantization.compute_dtype) * tokens
    working = (
        _LIBRARIES
        + 2 * largest * BYTES_PER_16BIT
        + _PREFILL_ROWS * 4 * (int(text.vocab_size) + 8 * int(text.hidden_size))
    )
    needed = sum(weights.values()) + kv + working
    free = free_bytes(options)
    return Estimate(
        name=name,
        parameters=parameters,
        quantization=options.quantization.scheme,
        weights_by_dtype=dict(weights),
        weights_bytes=sum(weights.values()),
        context=tokens,
        kv_bytes=kv,
        working_bytes=working,
        needed_bytes=needed,
        free_bytes=free,
        fits=needed <= free,
        fits_alone=needed <= free + in_use,
        verdict=_verdict(needed, free, in_use, tokens, options),
    )


def refuse_if_too_large(folder: Path, on_disk: int | None, label: str, options: LoadOptions) -> None:
    """Raises OutOfMemory when ``folder`` (``on_disk`` bytes of weights, None: not known) can't fit into what is free; quick when it
    clearly can."""
    if on_disk is not None and on_disk + _LIBRARIES < free_bytes(options):
        return
    from transformers import AutoConfig

    found = estimate_config(
        AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False), label, options, context=1
    )
    if not found.fits:
        raise OutOfMemory(f"{label} was not loaded. {found.verdict}", found.needed_bytes - found.free_bytes)


def refuse_unpacking(parameters: int, label: str) -> None:
    """Raises OutOfMemory when a GGUF file's ``parameters`` don't fit into the machine's memory in 16 bits, as which they are unpacked."""
    needed, free = parameters * BYTES_PER_16BIT + _LIBRARIES, free_bytes(LoadOptions(device="cpu"))
    if needed > free:
        raise OutOfMemory(
            f"{label} was not loaded. Unpacking the GGUF file takes about {_gb(needed)}, {_gb(free)} are free. Close other "
            "programs, or take the model as a transformers folder, which is read piece by piece.",
            needed - free,
        )


def kv_bytes_per_token(text: PreTrainedConfig, dtype: str = "bfloat16") -> int:
    """Keys and values: 2 x layers x KV heads x head size x bytes of a number."""
    heads = int(getattr(text, "num_attention_heads", 1))
    kv_heads = int(getattr(text, "num_key_value_heads", None) or heads)
    head = int(getattr(text, "head_dim", None) or getattr(text, "d_kv", None) or int(text.hidden_size) // heads)
    return 2 * int(text.num_hidden_layers) * kv_heads * head * _bytes_of(dtype)


def _bytes_of(dtype: str) -> int:
    return BYTES_PER_32BIT if dtype == "float32" else BYTES_PER_16BIT


def _config(source: Source, settings: Settings, options: LoadOptions) -> PreTrainedConfig:
    from transformers import AutoConfig

    folder, extra = _where(source, settings, options)
    if not extra:
        check_architecture(read_config(folder), source.label)
    config: PreTrainedConfig = AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, **extra
    )
    return config


def _where(source: Source, settings: Settings, options: LoadOptions) -> tuple[Path, dict[str, str]]:
    ready = prepared.folder_for(settings.cache, source, options.quantization)
    if (ready / "config.json").is_file():
        return ready, {}
    if source.kind is SourceKind.HUB:
        return hub.config_folder(source.name), {}
    if source.kind is SourceKind.FOLDER and source.path:
        return source.path, {}
    file = source.path or builtin_gguf()
    gguf_source.check_gguf(file)
    return file.parent, {"gguf_file": file.name}


def _empty_model(config: PreTrainedConfig) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    try:
        with torch.device("meta"):
            model: PreTrainedModel = auto.from_config(config, trust_remote_code=False)
    except (TypeError, ValueError, AttributeError) as cause:
        raise ModelDamaged(f"A model can't be built from this config.json: {cause}") from cause
    return model


def _weigh_empty(
    model: PreTrainedModel, quantization: Quantization, config: PreTrainedConfig
) -> tuple[Counter[str], int, int]:
    """Bytes by dtype, number of parameters, and the number of elements of the largest tensor that is read at once."""
    from app.models.experts import WEIGHTS, can_be_4bit

    weights: Counter[str] = Counter()
    experts = {
        f"{name}.{weight}" for name, module in model.named_modules() if can_be_4bit(module) for weight in WEIGHTS
    }
    parameters = largest = 0
    tied = bool(getattr(config, "tie_word_embeddings", False))
    four_bit = quantization.four_bit or bool(getattr(config, "quantization_config", None))
    for name, tensor in model.named_parameters():
        parameters += tensor.numel()
        largest = max(largest, tensor.numel() // (len(tensor) if name in experts else 1))  # experts are read one by one
        if four_bit and (name in experts or _becomes_4bit(model, name)):
            weights["4-bit"] += int(tensor.numel() * _bytes_in_4bit(quantization, expert=name in experts))
        elif quantization.scheme == "int4" and tied and tensor is model.get_input_embeddings().weight:
            weights["8-bit"] += int(tensor.numel() * BYTES_ON_GRID8)
        else:
            weights[quantization.compute_dtype] += tensor.numel() * _bytes_of(quantization.compute_dtype)
    return weights, parameters, largest


def _bytes_in_4bit(quantization: Quantization, *, expert: bool) -> float:
    if quantization.scheme == "int4":
        return BYTES_ON_GRID
    return BYTES_PER_EXPERT_4BIT if expert else BYTES_PER_4BIT


def _becomes_4bit(model: PreTrainedModel, name: str) -> bool:
    """Linear layers except the output layer and those the architecture wants precise; embeddings, norms and routers stay."""
    from torch.nn import Linear

    precise = getattr(model, "_keep_in_fp32_modules", None) or ()
    if any(part in name.split(".") for part in precise):
        return False
    owner: nn.Module = model.get_submodule(name.rpartition(".")[0])
    return isinstance(owner, Linear) and name.endswith(".weight") and owner is not model.get_output_embeddings()


def _verdict(needed: int, free: int, in_use: int, tokens: int, options: LoadOptions) -> str:
    context = f" with {tokens:,} tokens of context" if tokens > 1 else ""
    amounts = f"about {_gb(needed)}{context}, {_gb(free)} are free{' on the graphics card' * bool(cards_for(options))}"
    if needed > free + in_use:
        return f"Doesn’t fit: it needs {amounts}. {_advice(needed, options)}"
    if needed > free:
        return f"Fits once the model in memory is unloaded, which is done first: it needs {amounts}."
    if needed > _TIGHT * free:
        return f"Tight: it needs {amounts}. Close other programs before a long chat."
    return f"Fits: it needs {amounts}."


def _advice(needed: int, options: LoadOptions) -> str:
    """What to do about it."""
    if not options.quantization.four_bit:
        return "Load it in 4 bits, or choose a smaller model."
    if cards_for(options) and needed <= free_bytes(LoadOptions(device="cpu")):
        return "Let it run on the processor (cpu), or choose a smaller model."
    return "Choose a smaller model or a shorter context, or close other programs."


def _gb(nbytes: int) -> str:
    return f"{nbytes / 1e9:.1f} GB"
