"""Before a load: what it begins with, what is kept on the disk, and whether memory holds it beside or instead of the present model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.models import budget
from app.models.budget import estimate
from app.models.loading import prepare_model
from app.models.options import LoadOptions, Quantization
from app.models.outlook import outlook
from app.settings import Settings
from tests.models.test_prepared import _Usage

DENSE = LoadOptions(Quantization("none"))


def test_a_copy_for_these_settings_is_read_and_for_others_one_is_made(settings: Settings, llama: Path) -> None:
    first = outlook(str(llama), settings, LoadOptions())
    assert first.step == "prepare"
    assert "once and keeps a copy of up to" in first.sentence
    prepare_model(str(llama), settings)
    again = outlook(str(llama), settings, LoadOptions(attention="eager"))
    assert (again.step, again.kept_bytes) == ("read", 0)
    assert "the copy that was made before" in again.sentence
    assert outlook(str(llama), settings, LoadOptions(Quantization("fp4"))).step == "prepare"


def test_without_quantizing_or_keeping(settings: Settings, llama: Path) -> None:
    assert "Reads the folder as it is" in outlook(str(llama), settings, DENSE).sentence
    each_time = outlook(str(llama), settings, LoadOptions(save_prepared=False))
    assert (each_time.step, each_time.kept_bytes) == ("quantize", 0)
    config = json.loads((llama / "config.json").read_text())
    (llama / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq"}}))
    assert "quantized already" in outlook(str(llama), settings, LoadOptions()).sentence


def test_a_hub_model_that_is_not_here_is_downloaded_first(settings: Settings) -> None:
    found = outlook("someone/some-model", settings, LoadOptions())
    assert (found.step, found.sentence) == ("download", "Downloads someone/some-model first, then quantizes it.")


def test_a_full_disk_is_told_before(settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Usage(10, 10, 0))
    assert "But only 0 MB are free there" in outlook(str(llama), settings, LoadOptions()).sentence


def test_the_estimate_follows_the_choices(settings: Settings, llama: Path) -> None:
    four_bit, dense = estimate(str(llama), settings), estimate(str(llama), settings, options=DENSE)
    single = LoadOptions(Quantization("none", compute_dtype="float32"))
    full = estimate(str(llama), settings, options=single)
    assert four_bit.weights_bytes < dense.weights_bytes
    assert full.weights_bytes == 2 * dense.weights_bytes
    assert full.kv_bytes == 2 * dense.kv_bytes


def test_what_the_present_model_gives_back_counts(
    settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 10**8)
    alone = estimate(str(llama), settings, in_use=10**9)
    assert (alone.fits, alone.fits_alone) == (False, True)
    assert alone.verdict.startswith("Fits once the model in memory is unloaded, which is done first")
    assert not estimate(str(llama), settings).fits_alone


def test_the_advice_is_for_what_was_chosen(settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 10**6)
    assert "Load it in 4 bits" in estimate(str(llama), settings, options=DENSE).verdict
    assert "Choose a smaller model" in estimate(str(llama), settings).verdict
    monkeypatch.setattr(budget, "cards_for", lambda _options: (0,))
    monkeypatch.setattr(budget, "free_bytes", lambda options: 10**6 if options.device == "auto" else 10**12)
    verdict = estimate(str(llama), settings).verdict
    assert "are free on the graphics card" in verdict
    assert "Let it run on the processor (cpu)" in verdict
