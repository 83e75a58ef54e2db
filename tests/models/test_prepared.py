"""Prepared checkpoints: used when sound, rebuilt with a word when not, and never half-written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest
import torch

from app.errors import Cancelled
from app.models import prepared
from app.models.loading import load_model, prepare_model, unload
from app.models.opening import four_bit_layers
from app.models.options import LoadOptions, Quantization, Scheme
from app.settings import Settings
from tests.models.tiny import tiny_llama


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def _only(settings: Settings) -> Path:
    (folder,) = prepared.root(settings.cache).iterdir()
    return folder


def _steps(settings: Settings, model: Path) -> tuple[set[str], tuple[str, ...]]:
    steps: set[str] = set()
    loaded = load_model(str(model), settings, progress=lambda what, _done, _total: steps.add(what))
    unload(loaded)
    return steps, loaded.report.warnings


def test_the_second_start_quantizes_nothing(llama: Path, settings: Settings) -> None:
    first, _ = _steps(settings, llama)
    second, warnings = _steps(settings, llama)
    assert "Quantizing to 4 bits" in first
    assert "Quantizing to 4 bits" not in second
    assert warnings == ()


def test_the_manifest_names_source_settings_versions_and_hashes(llama: Path, settings: Settings) -> None:
    folder = prepare_model(str(llama), settings)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["quantization"] == {"scheme": "nf4", "double_quant": True, "compute_dtype": "bfloat16"}
    assert set(manifest["libraries"]) == {"transformers", "bitsandbytes"}
    assert "model.safetensors" in manifest["source"]["files"]
    weights = manifest["files"]["model.safetensors"]
    assert weights["sha256"] == prepared.sha256(folder / "model.safetensors")
    assert weights["size"] == (folder / "model.safetensors").stat().st_size


def _flip_a_byte(folder: Path) -> None:
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 0xFF
    file.write_bytes(data)


def _cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def _lose_a_file(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def _spoil_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def _age(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["libraries"]["transformers"] = "4.0"
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_flip_a_byte, "does not match its checksum"),
        (_cut, "bytes instead of"),
        (_lose_a_file, "tokenizer.json is missing"),
        (_spoil_the_manifest, "manifest can't be read"),
        (_age, "other versions of the libraries"),
    ],
)
def test_a_damaged_copy_is_rebuilt_and_said_so(
    llama: Path, settings: Settings, spoil: Callable[[Path], None], reason: str
) -> None:
    folder = prepare_model(str(llama), settings)
    spoil(folder)
    steps, warnings = _steps(settings, llama)
    assert "Quantizing to 4 bits" in steps
    assert len(warnings) == 1
    assert reason in warnings[0]
    assert "made anew" in warnings[0]
    assert _steps(settings, llama)[1] == ()


def test_a_changed_source_is_noticed(llama: Path, settings: Settings) -> None:
    prepare_model(str(llama), settings)
    tiny_llama(llama, seed=1)
    _, warnings = _steps(settings, llama)
    assert "has changed" in warnings[0]


def test_other_settings_get_a_copy_of_their_own(llama: Path, settings: Settings) -> None:
    one = prepare_model(str(llama), settings)
    other = prepare_model(str(llama), settings, options=LoadOptions(Quantization("fp4", double_quant=False)))
    assert one != other
    assert len(prepared.every(settings.cache)) == 2


def test_a_cancelled_preparation_leaves_nothing(llama: Path, settings: Settings) -> None:
    cancelled = Event()

    def stop_while_quantizing(what: str, done: int, _total: int) -> None:
        if what == "Quantizing to 4 bits" and done == 5:
            cancelled.set()

    with pytest.raises(Cancelled):
        load_model(str(llama), settings, progress=stop_while_quantizing, cancelled=cancelled)
    assert list(prepared.root(settings.cache).iterdir()) == []


def test_a_killed_preparation_is_swept_away_and_never_used(llama: Path, settings: Settings) -> None:
    """A process that dies in the middle of writing leaves a pending folder; the next one starts over."""
    code = (
        "import os, sys; from pathlib import Path; from app.models import prepared\n"
        "with prepared.writing(Path(sys.argv[1]), {}) as pending:\n"
        "    (pending / 'model.safetensors').write_bytes(b'half'); os._exit(9)\n"
    )
    target = prepared.root(settings.cache) / "half"
    died = subprocess.run([sys.executable, "-c", code, str(target)], check=False, cwd=Path(__file__).parents[2])
    assert died.returncode == 9
    assert len(list(target.parent.iterdir())) == 1
    assert prepared.every(settings.cache) == ()
    prepare_model(str(llama), settings)
    assert len(list(target.parent.iterdir())) == 1


def test_another_process_s_pending_folder_is_left_alone(tmp_path: Path) -> None:
    pending = tmp_path / f".pending-{os.getpid()}-x"
    pending.mkdir()
    prepared.sweep(tmp_path)
    assert pending.exists()


def test_without_space_it_loads_all_the_same_and_says_so(
    llama: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Usage(10, 10, 0))
    loaded = load_model(str(llama), settings)
    assert loaded.report.linear_share_4bit == 1.0
    assert "not kept for the next start" in loaded.report.warnings[0]
    assert prepared.every(settings.cache) == ()
    unload(loaded)


@pytest.mark.parametrize("double_quant", [True, False])
@pytest.mark.parametrize("scheme", ["nf4", "fp4"])
def test_what_is_reloaded_computes_what_was_quantized(
    llama: Path, settings: Settings, scheme: Scheme, double_quant: bool
) -> None:
    """Bitsandbytes spoils weights that are saved after a forward; a copy must never come from such a state."""
    options = LoadOptions(Quantization(scheme, double_quant=double_quant))
    direct = load_model(str(llama), settings, options=replace(options, save_prepared=False))
    prepared_first = load_model(str(llama), settings, options=options)
    prepared_again = load_model(str(llama), settings, options=options)
    ids = torch.tensor([[10, 20, 30, 40]])
    with torch.inference_mode():
        expected = direct.model(input_ids=ids).logits
        assert torch.equal(prepared_first.model(input_ids=ids).logits, expected)
        assert torch.equal(prepared_again.model(input_ids=ids).logits, expected)
    one, other = (next(four_bit_layers(loaded.model)) for loaded in (prepared_first, prepared_again))
    assert torch.equal(one.weight, other.weight)


def test_without_quantization_the_folder_itself_is_loaded(llama: Path, settings: Settings) -> None:
    loaded = load_model(str(llama), settings, options=LoadOptions(Quantization("none")))
    assert loaded.report.share_4bit == 0
    assert loaded.report.warnings == ()
    assert loaded.facts.quantization == "none"
    assert set(loaded.report.bytes_by_dtype) == {"bfloat16", "float32"}  # float32: the rotary frequencies
    assert prepared.every(settings.cache) == ()
