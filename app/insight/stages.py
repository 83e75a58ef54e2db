"""Which parameter a stage of the decode loop belongs to: one row per logits processor of the library."""

from __future__ import annotations

from types import MappingProxyType

PARAMETER_OF = MappingProxyType(
    {
        "UnbatchedClassifierFreeGuidanceLogitsProcessor": "guidance_scale",
        "SequenceBiasLogitsProcessor": "sequence_bias",
        "EncoderRepetitionPenaltyLogitsProcessor": "encoder_repetition_penalty",
        "RepetitionPenaltyLogitsProcessor": "repetition_penalty",
        "NoRepeatNGramLogitsProcessor": "no_repeat_ngram_size",
        "EncoderNoRepeatNGramLogitsProcessor": "encoder_no_repeat_ngram_size",
        "NoBadWordsLogitsProcessor": "bad_words_ids",
        "MinLengthLogitsProcessor": "min_length",
        "MinNewTokensLengthLogitsProcessor": "min_new_tokens",
        "PrefixConstrainedLogitsProcessor": "output_format",
        "FormProcessor": "output_format",
        "ForcedBOSTokenLogitsProcessor": "forced_bos_token_id",
        "ForcedFirstToken": "forced_bos_token_id",
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
        "SynthIDTextWatermarkLogitsProcessor": "watermarking_config",
        "LogitNormalization": "renormalize_logits",
    }
)
"""Class name of the processor → parameter."""

RESHAPES = frozenset(
    {
        "guidance_scale",
        "sequence_bias",
        "encoder_repetition_penalty",
        "repetition_penalty",
        "exponential_decay_length_penalty",
        "temperature",
        "watermarking_config",
    }
)
"""Parameters that move probability about; the others exclude candidates (or only rescale)."""
