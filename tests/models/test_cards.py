"""Several graphics cards share a model by whole layers, and nothing of it lands elsewhere; tried with cards that are only said to exist."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.accelerate import _get_device_map

from app.errors import OutOfMemory
from app.models.devices import FOR_WEIGHTS, placement, refuse_spill
from app.models.options import LoadOptions
from app.models.translate import as_model_error
from tests.models.tiny import tiny_llama

LAYERS = 8


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says how much is free on each of so many cards."""

    def have(*free: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(free))
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (free[number], free[number]))

    return have


@pytest.fixture(scope="module")
def empty_model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tiny_llama(tmp_path_factory.mktemp("cards") / "llama")
    auto: Any = AutoModelForCausalLM
    with torch.device("meta"):
        return auto.from_config(
            AutoConfig.from_pretrained(folder, num_hidden_layers=LAYERS, tie_word_embeddings=False),
            dtype=torch.bfloat16,
        )


def where(model: Any, options: LoadOptions) -> dict[str, Any]:
    """What the library would do with our placement."""
    asked = placement(options)
    found: dict[str, Any] = _get_device_map(model, asked["device_map"], dict(asked["max_memory"]), None)
    return found


def test_one_card_gets_all_of_it(cards: Any) -> None:
    cards(10_000)
    assert placement(LoadOptions()) == {"device_map": {"": 0}}


def test_a_card_that_was_chosen_gets_all_of_it(cards: Any) -> None:
    cards(10_000, 10_000)
    assert placement(LoadOptions(device="cuda:1")) == {"device_map": {"": 1}}


def test_two_cards_share_it_by_whole_layers(cards: Any, empty_model: Any) -> None:
    size = sum(tensor.numel() * tensor.element_size() for tensor in empty_model.parameters())
    cards(size, size)
    found = where(empty_model, LoadOptions())
    assert set(found.values()) == {0, 1}
    layers = [found[f"model.layers.{number}"] for number in range(LAYERS)]
    assert layers == sorted(layers)
    assert 2 <= layers.count(0) <= LAYERS - 2
    refuse_spill(SimpleNamespace(hf_device_map=found), "model")


def test_room_is_left_on_each_card(cards: Any) -> None:
    cards(1000, 2000)
    assert placement(LoadOptions())["max_memory"] == {0: int(1000 * FOR_WEIGHTS), 1: int(2000 * FOR_WEIGHTS)}


def test_what_does_not_fit_is_refused_instead_of_computed_from_the_disk(cards: Any, empty_model: Any) -> None:
    size = sum(tensor.numel() * tensor.element_size() for tensor in empty_model.parameters())
    cards(size // 3, size // 3)
    found = where(empty_model, LoadOptions())
    with pytest.raises(OutOfMemory, match="doesn’t fit on the graphics cards"):
        refuse_spill(SimpleNamespace(hf_device_map=found), "model")


def test_the_librarys_own_refusal_of_4_bit_weights_is_a_lack_of_memory() -> None:
    cause = ValueError(
        "Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the model."
    )
    assert isinstance(as_model_error("model", cause), OutOfMemory)


def test_the_processor_alone_is_no_spill() -> None:
    refuse_spill(SimpleNamespace(hf_device_map={"": "cpu"}), "model")
    refuse_spill(SimpleNamespace(), "model")
