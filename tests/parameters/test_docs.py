"""docs/parameters.md says what the table says."""

from __future__ import annotations

import re
from typing import Any

import torch
from transformers import GenerationConfig

from app.conversation import Json
from app.parameters.docs import TARGET, page
from app.parameters.resolve import resolve
from app.parameters.table import TABLE
from tests.parameters import tiny


def test_the_generated_page_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run `python -m app.parameters.docs`"


def test_every_row_has_its_section() -> None:
    text = page()
    assert all(f"### `{row.name}`\n\n{row.help}\n" in text for row in TABLE)


def test_the_stated_order_of_the_parameters_is_the_one_in_which_transformers_applies_them() -> None:
    """Everything is set at once on a tiny model, and the names of the processors are compared with the page's list."""
    paragraph = page().split("in this order: ")[1].split("So the cutoffs")[0]
    stated = [name for name in re.findall(r"`(\w+)`", paragraph) if name != "output_format"]
    requested: dict[str, Json] = {name: VALUES.get(name, 0.5) for name in stated}
    resolution = resolve(
        {**requested, "max_new_tokens": 4, "decoder_start_token_id": 0}, tiny.ENCODER_FACTS, prompt_tokens=0
    )
    set_aside = {
        "guidance_scale": 2.0,
        "exponential_decay_length_penalty": (1, 1.5),
        "max_length": 9,
        "min_length": 3,
    }  # which the resolution leaves out here
    config = GenerationConfig(**{**resolution.generation_kwargs(tiny.encode), **set_aside})
    model: Any = tiny.t5()
    model._prepare_special_tokens(config, device="cpu")
    prompt = torch.tensor([[5, 6, 7]])
    made = model._get_logits_processor(config, input_ids_seq_length=1, encoder_input_ids=prompt, device="cpu")
    assert [PROCESSORS[type(processor).__name__] for processor in made] == stated


VALUES: dict[str, Json] = {
    "guidance_scale": 1.0,
    "sequence_bias": [["a", 1.0]],
    "no_repeat_ngram_size": 2,
    "encoder_no_repeat_ngram_size": 2,
    "bad_words_ids": ["b"],
    "min_length": 3,
    "min_new_tokens": 2,
    "forced_bos_token_id": 5,
    "forced_eos_token_id": [2],
    "remove_invalid_values": True,
    "exponential_decay_length_penalty": [1, 1.5],
    "suppress_tokens": [9],
    "begin_suppress_tokens": [8],
    "top_k": 5,
    "watermarking_config": {},
    "renormalize_logits": True,
}

PROCESSORS = {
    "UnbatchedClassifierFreeGuidanceLogitsProcessor": "guidance_scale",
    "SequenceBiasLogitsProcessor": "sequence_bias",
    "EncoderRepetitionPenaltyLogitsProcessor": "encoder_repetition_penalty",
    "RepetitionPenaltyLogitsProcessor": "repetition_penalty",
    "NoRepeatNGramLogitsProcessor": "no_repeat_ngram_size",
    "EncoderNoRepeatNGramLogitsProcessor": "encoder_no_repeat_ngram_size",
    "NoBadWordsLogitsProcessor": "bad_words_ids",
    "MinLengthLogitsProcessor": "min_length",
    "MinNewTokensLengthLogitsProcessor": "min_new_tokens",
    "ForcedBOSTokenLogitsProcessor": "forced_bos_token_id",
    "ForcedEOSTokenLogitsProcessor": "forced_eos_token_id",
    "InfNanRemoveLogitsProcessor": "remove_invalid_values",
    "ExponentialDecayLengthPenalty": "exponential_decay_length_penalty",
    "SuppressTokensLogitsProcessor": "suppress_tokens",
    "SuppressTokensAtBeginLogitsProcessor": "begin_suppress_tokens",
    "TemperatureLogitsWarper": "temperature",
    "TopHLogitsWarper": "top_h",
    "TopKLogitsWarper": "top_k",
    "TopPLogitsWarper": "top_p",
    "MinPLogitsWarper": "min_p",
    "TypicalLogitsWarper": "typical_p",
    "EpsilonLogitsWarper": "epsilon_cutoff",
    "EtaLogitsWarper": "eta_cutoff",
    "WatermarkLogitsProcessor": "watermarking_config",
    "LogitNormalization": "renormalize_logits",
}
