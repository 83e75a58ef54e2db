"""When a parameter can't act, and why: pure predicates over the other values and the model, each a sentence for the user."""

from __future__ import annotations

from importlib.util import find_spec
from os import environ
from shutil import which

from app.conversation import Json
from app.models.facts import ModelFacts
from app.parameters.row import Predicate, Values

STATIC_CACHES = ("static", "offloaded_static")
QUANTIZED_CACHE_PACKAGES = ("optimum.quanto", "hqq")


def first_of(*predicates: Predicate) -> Predicate:
    """The first reason that any of them gives."""

    def check(values: Values, facts: ModelFacts) -> str | None:
        return next((reason for p in predicates if (reason := p(values, facts))), None)

    return check


def while_sampling(values: Values, _facts: ModelFacts) -> str | None:
    """For parameters that shape the distribution a token is drawn from."""
    return None if values["do_sample"] else "greedy decoding takes the likeliest token, so nothing is drawn"


def with_beams(values: Values, _facts: ModelFacts) -> str | None:
    """For parameters of beam search."""
    return None if values["num_beams"] > 1 else "there is only one beam (num_beams is 1)"


def without_beams(values: Values, _facts: ModelFacts) -> str | None:
    """For techniques that follow one sequence and can't follow beams."""
    return "beam search is on (num_beams above 1)" if values["num_beams"] > 1 else None


def one_sequence(values: Values, facts: ModelFacts) -> str | None:
    """For speculative techniques: one sequence, a cache, and no processor that counts its calls."""
    if reason := without_beams(values, facts):
        return reason
    if values["num_return_sequences"] > 1:
        return "several sequences are returned (num_return_sequences above 1)"
    if not values["use_cache"]:
        return "it needs the key/value cache (use_cache is off)"
    return _stateful_processor(values)


def _stateful_processor(values: Values) -> str | None:
    if values["guidance_scale"] != 1.0:
        return "guidance_scale runs a second sequence in step with the first"
    if values["output_format"] is not None:
        return "structured output follows the reply token by token"
    if _synthid(values["watermarking_config"]):
        return "the SynthID watermark follows the reply token by token"
    return None


def _synthid(config: Json) -> bool:
    return isinstance(config, dict) and config.get("kind") == "synthid"


def watermark(values: Values, _facts: ModelFacts) -> str | None:
    """The tournament of a SynthID watermark keeps a history per sequence, and beams change places."""
    if values["num_beams"] > 1 and _synthid(values["watermarking_config"]):
        return "the SynthID watermark follows one reply token by token, and beams change places (num_beams above 1)"
    return None


def with_draft(values: Values, facts: ModelFacts) -> str | None:
    """For parameters of a draft model."""
    if facts.draft_model is None:
        return "no draft model is loaded"
    return (
        guessing_rests(values, facts)
        or one_sequence(values, facts)
        or ("prompt lookup drafts instead of the draft model" if values["prompt_lookup_num_tokens"] else None)
    )


def guessing_rests(_values: Values, facts: ModelFacts) -> str | None:
    """For drafts and prompt lookup, which lose where guesses are seldom right."""
    return facts.guessing_rests


def without_draft(_values: Values, facts: ModelFacts) -> str | None:
    """For prompt lookup, which takes the draft model's place."""
    return f"the draft model {facts.draft_model} is loaded and drafts" if facts.draft_model else None


def foreign_draft(values: Values, facts: ModelFacts) -> str | None:
    """For the re-encoding between two tokenizers."""
    if reason := with_draft(values, facts):
        return reason
    if facts.draft_shares_tokenizer:
        return "the draft model has the same tokenizer"
    return "while sampling the two vocabularies are translated directly" if values["do_sample"] else None


def with_prompt_lookup(values: Values, _facts: ModelFacts) -> str | None:
    """For parameters of prompt lookup."""
    return None if values["prompt_lookup_num_tokens"] else "prompt lookup is off (prompt_lookup_num_tokens is 0)"


def encoder_decoder(_values: Values, facts: ModelFacts) -> str | None:
    """For encoder–decoder models such as T5."""
    return None if facts.is_encoder_decoder else "this model has no encoder: it only decodes"


def decoder_only(_values: Values, facts: ModelFacts) -> str | None:
    """For techniques that rewrite or extend the prompt itself."""
    return "this is an encoder–decoder model" if facts.is_encoder_decoder else None


def ends_by_token(values: Values, facts: ModelFacts) -> str | None:
    """For parameters that hold back or push the end-of-sequence token."""
    if values["eos_token_id"] or not facts.name:  # without a model the end token is not known yet
        return None
    return "there is no end token (eos_token_id is empty)"


def growing_end(values: Values, facts: ModelFacts) -> str | None:
    """The end token's growth multiplies its score, and barred tokens must not have one."""
    if values["remove_invalid_values"]:
        return "remove_invalid_values gives barred tokens huge negative scores, which the growth would overflow"
    return ends_by_token(values, facts)


def with_cache(values: Values, _facts: ModelFacts) -> str | None:
    """For every choice of a cache."""
    return None if values["use_cache"] else "there is no cache (use_cache is off)"


def static_cache(values: Values, _facts: ModelFacts) -> str | None:
    """For sizes and compilation of a cache that is allocated in advance."""
    if values["cache_implementation"] in STATIC_CACHES:
        return None
    return "only a static cache is allocated in advance (cache_implementation)"


def quantized_cache(values: Values, _facts: ModelFacts) -> str | None:
    """For arguments of the quantized cache."""
    quantized = values["cache_implementation"] == "quantized"
    return None if quantized else 'only the quantized cache takes arguments (cache_implementation = "quantized")'


def cache_possible(values: Values, facts: ModelFacts) -> str | None:
    """Whether this model on this machine can have the cache asked for."""
    kind = values["cache_implementation"]
    if kind is None:
        return None
    return with_cache(values, facts) or _cache_kind_possible(kind, facts)


def _cache_kind_possible(kind: str, facts: ModelFacts) -> str | None:
    if kind.startswith("offloaded") and not facts.device.startswith(("cuda", "xpu")):
        return "an offloaded cache moves layers between a graphics card and main memory, and this model runs on the CPU"
    if kind.startswith("offloaded") and (reason := one_process({}, facts)):
        return reason
    if kind in STATIC_CACHES and not facts.supports_static_cache:
        return f"{facts.architecture or 'this model'} can't use a static cache"
    if kind == "quantized":
        return _quantized_possible(facts)
    return None


def _quantized_possible(facts: ModelFacts) -> str | None:
    if facts.is_encoder_decoder:
        return "encoder–decoder models can't use a quantized cache"
    if not any(_installed(name) for name in QUANTIZED_CACHE_PACKAGES):
        return "a quantized cache needs the package optimum-quanto or hqq, and neither is installed"
    return None


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def mtp(values: Values, facts: ModelFacts) -> str | None:
    """Multi-token prediction."""
    if reason := one_process(values, facts):
        return reason
    return None if facts.has_mtp_layers else "this model has no multi-token-prediction layers"


def one_process(_values: Values, facts: ModelFacts) -> str | None:
    """For what needs the whole model at hand."""
    if facts.processes == 1:
        return None
    return f"the model is spread over {facts.processes} processes, and each has a part of every layer only"


def early_exit(values: Values, facts: ModelFacts) -> str | None:
    """Self-speculation with the lower layers."""
    if reason := one_process(values, facts):
        return reason
    if facts.supports_early_exit:
        return None
    return "this model was not trained so that its lower layers can answer (early exit)"


def dflash(_values: Values, facts: ModelFacts) -> str | None:
    """Block drafting with a DFlash draft model."""
    if facts.supports_dflash and facts.draft_model:
        return None
    return "it needs a model with a matching DFlash draft model loaded beside it"


def eager_attention(values: Values, facts: ModelFacts) -> str | None:
    """Attention weights exist only where they are computed one by one."""
    if reason := one_process(values, facts):
        return reason
    if facts.attention == "eager":
        return None
    return f"the model was loaded with {facts.attention} attention, which never forms the weights; load it with eager"


def with_guidance(values: Values, _facts: ModelFacts) -> str | None:
    """For the negative prompt."""
    return None if values["guidance_scale"] > 1.0 else "guidance is off (guidance_scale is 1)"


def guidance(values: Values, facts: ModelFacts) -> str | None:
    """For guidance, whose second sequence is not reordered with the beams."""
    return without_beams(values, facts) or decoder_only(values, facts)


def token_healing(values: Values, facts: ModelFacts) -> str | None:
    """Re-tokenizing the prompt's tail."""
    if reason := decoder_only(values, facts):
        return reason
    return None if facts.supports_token_healing else "this model's tokenizer can't list the tokens that start alike"


def min_length_counts(values: Values, facts: ModelFacts) -> str | None:
    """min_new_tokens takes precedence over min_length."""
    if values["min_new_tokens"]:
        return "min_new_tokens is set and counts instead"
    return ends_by_token(values, facts)


def max_length_counts(values: Values, _facts: ModelFacts) -> str | None:
    """max_new_tokens takes precedence over max_length."""
    return "max_new_tokens is set and counts instead" if values["max_new_tokens"] is not None else None


def compilable(values: Values, facts: ModelFacts) -> str | None:
    """What decides whether the forward pass is compiled at all."""
    if reason := static_cache(values, facts) or one_process(values, facts):
        return reason
    if values["disable_compile"]:
        return "compilation is switched off (disable_compile)"
    return _compiler_missing(values["compile_config"], facts)


def _compiler_missing(config: Json, facts: ModelFacts) -> str | None:
    """The own backend of torch writes C++ where there is no graphics card, and cannot do without a compiler."""
    writes_cpp = isinstance(config, dict) and config.get("backend") == "inductor" and facts.device == "cpu"
    if not writes_cpp or any(map(which, (environ.get("CXX") or "g++", "g++", "clang++", "c++", "cl"))):
        return None
    return "torch's compiler needs a C++ compiler (g++ or clang++), and none is installed"


def never(_values: Values, _facts: ModelFacts) -> str | None:
    """For what only the machinery sets."""
    return "it is set by the machinery on the draft model, never by a user"


def ensemble(values: Values, facts: ModelFacts) -> str | None:
    """Mixing the draft's distribution into the check needs both distributions."""
    return with_draft(values, facts) or while_sampling(values, facts)
