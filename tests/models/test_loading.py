"""What a load hands back: facts that fit the model, an honest report, quiet libraries, and memory given back."""

from __future__ import annotations

import gc
import json
import logging
import weakref
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import torch

from app.models.loading import load_model, unload
from app.models.quiet import hushed, listening
from app.settings import Settings
from tests.models.tiny import CHATML, tiny_ernie_moe, tiny_llama, tiny_t5


def test_an_encoder_decoder_loads_and_generates(tmp_path: Path, settings: Settings) -> None:
    loaded = load_model(str(tiny_t5(tmp_path / "t5")), settings)
    assert loaded.facts.is_encoder_decoder
    assert not loaded.facts.has_chat_template
    assert not loaded.facts.supports_early_exit
    model: Any = loaded.model
    inputs = loaded.tokenizer("The capital", return_tensors="pt")
    assert model.generate(**inputs, max_new_tokens=3, do_sample=False).shape[0] == 1
    unload(loaded)


def test_generation_defaults_are_the_file_s_explicit_fields(llama: Path, settings: Settings) -> None:
    fields = {"temperature": 0.6, "top_p": 0.9, "top_k": None, "eos_token_id": [2, 0], "transformers_version": "4.40"}
    (llama / "generation_config.json").write_text(json.dumps(fields))
    facts = load_model(str(llama), settings).facts
    assert facts.generation_defaults == {"temperature": 0.6, "top_p": 0.9, "eos_token_id": [2, 0]}
    assert facts.eos_token_ids == (2, 0)


def test_a_chat_template_survives_preparation(tmp_path: Path, settings: Settings) -> None:
    loaded = load_model(str(tiny_llama(tmp_path / "m")), settings)
    assert loaded.tokenizer.chat_template == CHATML
    assert loaded.facts.has_chat_template
    assert not load_model(str(tiny_llama(tmp_path / "n", chat_template=None)), settings).facts.has_chat_template


def test_layers_that_the_packed_layout_cannot_hold_still_run(tmp_path: Path, settings: Settings) -> None:
    """16 rows in a key projection, 72 columns in a down projection: the AVX512-BF16 layout needs 32 and 64."""
    folder = tiny_llama(tmp_path / "odd", num_key_value_heads=1, intermediate_size=72)
    loaded = load_model(str(folder), settings)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.isfinite(loaded.model(input_ids=ids).logits).all()


def test_weights_are_repacked_while_loading_not_at_the_first_message(llama: Path, settings: Settings) -> None:
    loaded = load_model(str(llama), settings)
    before = [parameter.detach().clone() for parameter in loaded.model.parameters()]
    with torch.inference_mode():
        loaded.model(input_ids=torch.tensor([[1, 2, 3]]))
    assert all(torch.equal(a, b) for a, b in zip(before, loaded.model.parameters(), strict=True))


def test_unload_frees_the_model(llama: Path, settings: Settings) -> None:
    loaded = load_model(str(llama), settings)
    alive = weakref.ref(loaded.model)
    unload(loaded)
    gc.collect()
    assert alive() is None


def test_loading_prints_nothing(llama: Path, settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    unload(load_model(str(llama), settings))
    assert capfd.readouterr() == ("", "")


def test_harmless_noise_is_dropped_and_the_rest_is_heard() -> None:
    with listening() as heard:
        logging.getLogger("bitsandbytes.backends.cpu.ops").warning("Failed to load CPU gemm_4bit_forward from x")
        logging.getLogger("transformers.modeling_utils").warning("Something\n  real")
        logging.getLogger("transformers.modeling_utils").warning("Something real")
    assert heard == ["Something real"]


def test_an_experts_model_runs(tmp_path: Path, settings: Settings) -> None:
    loaded = load_model(str(tiny_ernie_moe(tmp_path / "moe")), settings)
    assert loaded.facts.num_experts == 8
    assert torch.isfinite(loaded.model(input_ids=torch.tensor([[1, 2, 3]])).logits).all()


def test_warnings_are_heard_again_after_two_threads_generated_at_once() -> None:
    """The second one begins while the first is at it, and ends after it."""
    from transformers.utils import logging as library

    before, first_is_over = library.get_verbosity(), Event()
    second_is_in = Event()

    def second() -> None:
        with hushed:
            second_is_in.set()
            assert first_is_over.wait(30)

    with hushed:
        thread = Thread(target=second)
        thread.start()
        assert second_is_in.wait(30)
    first_is_over.set()
    thread.join()
    assert library.get_verbosity() == before
