"""What the rest of Fader needs to know about a loaded model, as plain values: no torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from app.conversation import EMPTY, Json


@dataclass(frozen=True, slots=True)
class Remote:
    """That a model runs on a server elsewhere. ``kind``: what is known of the server, the OpenAI interface alone or vLLM. ``host``:
    as shown. ``leaves_machine``: whether what is written goes to another machine. ``context_known``: whether the server tells how
    long its context is (else ``context_length`` is no limit)."""

    kind: Literal["openai", "vllm"]
    host: str
    leaves_machine: bool
    context_known: bool = False


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A loaded model's limits and abilities; the parameter table's predicates and the page read them.

    ``generation_defaults`` are the non-null fields of the model's own generation_config.json. ``fingerprint`` identifies weights
    and environment: name, revision or sha256, quantization, library versions. ``processes``: over how many the model is spread
    (tensor parallelism). ``guessing_rests``: why nobody guesses ahead in this reply. ``remote``: set for a model on a server elsewhere.
    """

    name: str
    label: str
    architecture: str
    context_length: int
    vocab_size: int
    num_layers: int
    device: str = "cpu"
    quantization: str = "none"
    attention: str = "sdpa"
    is_encoder_decoder: bool = False
    has_chat_template: bool = True
    has_mtp_layers: bool = False
    supports_early_exit: bool = False
    supports_dflash: bool = False
    supports_static_cache: bool = True
    supports_token_healing: bool = True
    draft_model: str | None = None
    draft_shares_tokenizer: bool = True
    guessing_rests: str | None = None
    num_experts: int = 0
    processes: int = 1
    remote: Remote | None = None
    eos_token_ids: tuple[int, ...] = ()
    generation_defaults: Mapping[str, Json] = EMPTY
    fingerprint: Mapping[str, Json] = EMPTY
    load_options: Mapping[str, Json] = EMPTY
