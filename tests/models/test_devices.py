"""Where a model goes on machines with none, one and two graphics cards, which this one need not have."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from app.errors import OutOfMemory, UnsupportedModel
from app.models import devices
from app.models.measure import PeakMemory
from app.models.options import LoadOptions, Quantization
from app.models.translate import as_model_error

GB = 10**9


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend there are so many cards, with 1, 2, … GB free."""

    def pretend(count: int, *, bf16: bool = True) -> None:
        cuda = torch.cuda
        monkeypatch.setattr(cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(cuda, "device_count", lambda: count)
        monkeypatch.setattr(cuda, "mem_get_info", lambda card: ((card + 1) * GB, 9 * GB))
        monkeypatch.setattr(cuda, "is_bf16_supported", lambda including_emulation=True: bf16 or including_emulation)

    return pretend


@pytest.mark.parametrize(
    ("count", "device", "used", "where"),
    [
        (0, "auto", (), {"": "cpu"}),
        (0, "cpu", (), {"": "cpu"}),
        (1, "auto", (0,), {"": 0}),
        (1, "cuda", (0,), {"": 0}),
        (1, "cpu", (), {"": "cpu"}),
        (2, "auto", (0, 1), "auto"),
        (2, "cuda", (0, 1), "auto"),
        (2, "cuda:1", (1,), {"": 1}),
    ],
)
def test_what_a_device_means(cards: Any, count: int, device: str, used: tuple[int, ...], where: Any) -> None:
    cards(count)
    assert devices.cards_for(LoadOptions(device=device)) == used
    assert devices.device_map(LoadOptions(device=device)) == where


@pytest.mark.parametrize(
    ("count", "device", "words"),
    [
        (0, "cuda", "PyTorch finds no graphics card"),
        (0, "cuda:0", "no graphics card"),
        (1, "cuda:1", "the last one is cuda:0"),
    ],
)
def test_a_card_that_is_not_there_is_refused_with_the_way_out(cards: Any, count: int, device: str, words: str) -> None:
    cards(count)
    with pytest.raises(UnsupportedModel) as caught:
        devices.cards_for(LoadOptions(device=device))
    assert words in str(caught.value)
    assert "Choose the processor (cpu) or auto" in str(caught.value)


def test_free_memory_is_that_of_the_cards_that_are_used(cards: Any) -> None:
    cards(2)
    assert devices.free_bytes(LoadOptions()) == 3 * GB
    assert devices.free_bytes(LoadOptions(device="cuda:1")) == 2 * GB
    assert devices.free_bytes(LoadOptions(device="cpu")) not in (2 * GB, 3 * GB)


def test_a_card_without_units_for_bfloat16_is_told_of(cards: Any) -> None:
    cards(1, bf16=False)
    assert "float16" in devices.slow_dtype(LoadOptions())
    assert devices.slow_dtype(LoadOptions(Quantization(compute_dtype="float16"))) == ""
    assert devices.slow_dtype(LoadOptions(device="cpu")) == ""
    cards(1)
    assert devices.slow_dtype(LoadOptions()) == ""
    cards(0)
    assert devices.slow_dtype(LoadOptions()) == ""


def test_the_peak_of_a_load_onto_cards_is_what_was_allocated_there(monkeypatch: pytest.MonkeyPatch) -> None:
    most = {0: 5 * GB, 1: 2 * GB}
    reset: list[int] = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset.append)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _card: GB)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", most.__getitem__)
    with PeakMemory((0, 1)) as peak:
        pass
    assert reset == [0, 1]
    assert peak.nbytes == 5 * GB


def test_a_card_that_runs_out_of_memory_is_named_with_what_to_do() -> None:
    error = as_model_error("Some-Model", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert type(error) is OutOfMemory
    assert str(error).startswith("The graphics card has not enough memory for Some-Model. Load it in 4 bits")
