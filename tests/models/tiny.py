"""Tiny random models on disk, for every room's tests: seeded, so that the same call always writes the same model.

Each folder is a complete transformers checkpoint: config, safetensors, generation config, a byte-level tokenizer that round-trips
any text, and (where asked for) a chat template.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Takes every role in every order."""

NO_SYSTEM = (
    "{% if messages and messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + CHATML
)
"""Refuses a system message."""

ALTERNATING = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}{% endfor %}" + CHATML
)
"""Refuses roles that do not alternate, and so a system message too."""

THINKING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{{ m['content'].split('</think>')[-1] if m['role'] == 'assistant' else m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
"""Drops the thinking of earlier replies and knows enable_thinking."""

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
VOCABULARY = 400
_CORPUS = (
    "The capital of France is Paris. What is the time? I do not know, but the answer is in the question.",
    "A small model says the same words again and again, and the reader is content with that.",
    "user assistant system hello world one two three four five six seven eight nine ten",
)


def tiny_tokenizer(*, chat_template: str | None = CHATML, append_eos: bool = False) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of 400 tokens: <|endoftext|> pads, <|im_start|> and <|im_end|> frame a turn."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        show_progress=False,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    if append_eos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A <|im_end|>", special_tokens=[("<|im_end|>", SPECIAL.index("<|im_end|>"))]
        )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = chat_template
    return fast


def tiny_llama(
    path: Path, *, chat_template: str | None = CHATML, seed: int = 0, max_shard_size: str = "5GB", **config: Any
) -> Path:
    """A llama of 2 layers, width 64, context 512; ``config`` overrides fields of LlamaConfig."""
    fields = {"num_key_value_heads": 2, "max_position_embeddings": 512} | config
    return _write(
        path, _config("LlamaConfig", fields), tiny_tokenizer(chat_template=chat_template), seed, max_shard_size
    )


def tiny_decoder(path: Path, family: str, *, seed: int = 0, **config: Any) -> Path:
    """A decoder of another family (the prefix of its config class): 2 layers, width 64, context 512, two key-value heads."""
    fields = {"num_key_value_heads": 2, "max_position_embeddings": 512, "head_dim": 16} | config
    return _write(path, _config(f"{family}Config", fields), tiny_tokenizer(), seed)


def tiny_t5(path: Path, *, seed: int = 0, **config: Any) -> Path:
    """An encoder-decoder of 2 + 2 layers without a chat template; ``config`` overrides fields of T5Config."""
    tokenizer = tiny_tokenizer(chat_template=None, append_eos=True)
    fields = {"d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    base = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": None}
    return _write(path, transformers.T5Config(**(fields | base | config)), tokenizer, seed)


def tiny_ernie_moe(path: Path, *, chat_template: str | None = CHATML, seed: int = 0, **config: Any) -> Path:
    """ERNIE 4.5 MoE: 1 dense and 2 expert layers, 8 experts of which 2 are used, a shared expert, non-zero correction bias."""
    fields = {
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "moe_intermediate_size": 64,
        "moe_num_experts": 8,
        "moe_k": 2,
        "moe_num_shared_experts": 1,
        "moe_layer_start_index": 1,
    }
    return _write(
        path, _config("Ernie4_5_MoeConfig", fields | config), tiny_tokenizer(chat_template=chat_template), seed
    )


def tiny_mixtral(path: Path, *, seed: int = 0, **config: Any) -> Path:
    """Mixtral: 2 layers of 4 experts, 2 used."""
    fields = {"num_key_value_heads": 2, "max_position_embeddings": 512, "num_local_experts": 4, "sliding_window": None}
    return _write(path, _config("MixtralConfig", fields | config), tiny_tokenizer(), seed)


def tiny_qwen_moe(path: Path, *, seed: int = 0, **config: Any) -> Path:
    """Qwen3-MoE: 2 layers of 8 experts, 2 used."""
    fields = {
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "moe_intermediate_size": 64,
        "num_experts": 8,
        "num_experts_per_tok": 2,
    }
    return _write(path, _config("Qwen3MoeConfig", fields | config), tiny_tokenizer(), seed)


def tiny_olmoe(path: Path, *, seed: int = 0, **config: Any) -> Path:
    """OLMoE: 2 layers of 8 experts of width 64, 2 used."""
    fields = {"intermediate_size": 64, "max_position_embeddings": 512, "num_experts": 8, "num_experts_per_tok": 2}
    return _write(path, _config("OlmoeConfig", fields | config), tiny_tokenizer(), seed)


def _config(name: str, fields: dict[str, Any]) -> PreTrainedConfig:
    base = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    }
    made: PreTrainedConfig = getattr(transformers, name)(**(base | fields))
    return made


def _write(
    path: Path, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerFast, seed: int, max_shard_size: str = "5GB"
) -> Path:
    with _quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        auto: Any = (
            transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
        )
        model: PreTrainedModel = auto.from_config(config, dtype=torch.bfloat16)
        _spread(model)
        model.save_pretrained(path, max_shard_size=max_shard_size)
    tokenizer.save_pretrained(path)
    return path


def _spread(model: PreTrainedModel) -> None:
    """Make the weights wide enough that logits differ clearly, and every router's correction bias something other than zero."""
    for name, tensor in model.state_dict().items():
        if name.endswith("e_score_correction_bias"):
            tensor.copy_(torch.linspace(-0.2, 0.2, tensor.numel()).reshape(tensor.shape))
        elif tensor.ndim > 1:
            tensor.mul_(5)


@contextmanager
def _quiet() -> Iterator[None]:
    """Writing a checkpoint draws progress bars; tests don't want them."""
    logs = transformers.utils.logging
    shown = logs.is_progress_bar_enabled()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logs.enable_progress_bar()
