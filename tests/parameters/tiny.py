"""A random model small enough to generate hundreds of times in a test, its facts, and an encoder of its 128 characters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from hypothesis import strategies as st
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from app.conversation import Json
from app.models.facts import ModelFacts
from app.parameters.row import Parameter

END = 2
FACTS = ModelFacts(
    name="tiny",
    label="tiny",
    architecture="LlamaForCausalLM",
    context_length=64,
    vocab_size=128,
    num_layers=2,
    attention="eager",
    eos_token_ids=(END,),
)
ENCODER_FACTS = replace(FACTS, name="tiny-t5", architecture="T5ForConditionalGeneration", is_encoder_decoder=True)


def llama(seed: int = 0) -> PreTrainedModel:
    """A llama of two layers that carries no generation defaults of its own, as Fader loads models."""
    torch.manual_seed(seed)
    config: Any = LlamaConfig(
        vocab_size=FACTS.vocab_size,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=FACTS.num_layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=FACTS.context_length,
        bos_token_id=1,
        eos_token_id=END,
    )
    return _bare(LlamaForCausalLM, config)


def _bare(kind: type[PreTrainedModel], config: Any) -> PreTrainedModel:
    config._attn_implementation = "eager"
    model: Any = kind(config).eval()
    model.generation_config = GenerationConfig()
    return cast(PreTrainedModel, model)


def t5() -> PreTrainedModel:
    """An encoder–decoder of two layers."""
    torch.manual_seed(0)
    config: Any = T5Config(
        vocab_size=FACTS.vocab_size,
        d_model=32,
        d_kv=16,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=END,
    )
    return _bare(T5ForConditionalGeneration, config)


def encode(text: str) -> list[int]:
    """One token per character; end of text is the character number 2."""
    return [ord(character) % FACTS.vocab_size for character in text]


def run(model: Any, config: GenerationConfig, **arguments: Any) -> torch.Tensor:
    """Run generate on a prompt of five tokens. Returns ids [sequences, length]."""
    torch.manual_seed(0)
    prompt = torch.tensor([[5, 6, 7, 5, 6]])
    made = model.generate(prompt, generation_config=config, attention_mask=torch.ones_like(prompt), **arguments)
    sequences = getattr(made, "sequences", made)
    assert isinstance(sequences, torch.Tensor)
    return sequences


SAMPLES: dict[str, list[Json]] = {
    "text": ["", "sad words"],
    "texts": [[], ["stop"], ["a", "b\n"]],
    "token": [7, "x"],
    "tokens": [[], [7], [9, "x"]],
    "phrases": [[], ["word"], [[7, 8], "x"]],
    "rows": [[], [["word", 2.0]], [[[7, 8], -3.0], ["y", 10.0]]],
    "pair": [[0, 1.5], [3, 1.01]],
    "json": [{"nbits": 4}],
    "watermark": [{}, {"kind": "synthid"}, {"bias": 4.0, "seeding_scheme": "selfhash", "context_width": 2}],
    "compile": [{"backend": "eager"}],
    "format": [{"kind": "regex", "pattern": "[ab]+"}, {"kind": "choices", "choices": ["a", "b"]}],
}
"""Typical values of the kinds that are no number, switch or choice."""


def ends(row: Parameter, facts: ModelFacts = FACTS) -> list[Json]:
    """Both ends of a row's control, its off value, and what lies between."""
    values = list(row.choices) or SAMPLES.get(row.kind, [False, True])
    if row.kind in ("int", "float"):
        convert = int if row.kind == "int" else float
        reach = row.slider(facts) if row.step else None
        low, high = (reach.low, reach.high) if reach else (row.minimum or 0, row.maximum_for(facts) or 100)
        values = [convert(low), convert((low + high) / 2), convert(high)]
    if row.name == "max_length":
        values[0] = 6  # one more than the prompt
    off = [] if row.off is None else [row.off]
    return [*values, *off, *([None] if row.off is None else [])]


def any_value(row: Parameter, facts: ModelFacts = FACTS) -> st.SearchStrategy[Json]:
    """Values that a user could set for a row."""
    if row.kind == "float":
        reach = row.slider(facts)
        return st.floats(reach.low, reach.high, allow_nan=False) | st.sampled_from(ends(row, facts))
    if row.kind == "int":
        known = [value for value in ends(row, facts) if value is not None]
        return st.integers(min(known), max(known)) | st.sampled_from(ends(row, facts))
    return st.sampled_from(ends(row, facts))
