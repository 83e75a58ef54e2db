"""GGUF files: an unknown architecture is named and refused early, damage is noticed, and a good one becomes 4-bit."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from app.errors import ModelDamaged, ModelNotFound, UnsupportedModel
from app.models.builtin import builtin_gguf
from app.models.catalogue import resolve
from app.models.gguf_source import check_gguf
from app.models.loading import load_model
from app.models.source import SourceKind
from app.settings import Settings


def _gguf(path: Path, architecture: str) -> Path:
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.ones((32, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_an_unknown_architecture_is_named(tmp_path: Path, settings: Settings) -> None:
    file = _gguf(tmp_path / "model.gguf", "hovercraft")
    started = time.monotonic()
    with pytest.raises(UnsupportedModel, match="hovercraft"):
        load_model(str(file), settings)
    assert time.monotonic() - started < 30
    assert not settings.cache.exists() or not list(settings.cache.rglob("*.safetensors"))


def test_a_header_gives_architecture_and_size() -> None:
    summary = check_gguf(builtin_gguf())
    assert summary.architecture == "llama"
    assert summary.parameters == 134_515_008


def test_a_file_cut_short(tmp_path: Path, settings: Settings) -> None:
    file = _gguf(tmp_path / "model.gguf", "llama")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelDamaged, match="cut short"):
        load_model(str(file), settings)


def test_a_header_cut_short(tmp_path: Path, settings: Settings) -> None:
    file = _gguf(tmp_path / "model.gguf", "llama")
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(ModelDamaged, match="readable GGUF"):
        load_model(str(file), settings)


def test_another_kind_of_file(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "model.gguf").write_text("hello")
    with pytest.raises(ModelNotFound, match="not a GGUF file"):
        load_model(str(tmp_path / "model.gguf"), settings)


def test_a_missing_file(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(ModelNotFound, match="no model at"):
        load_model(str(tmp_path / "model.gguf"), settings)


def test_a_folder_with_one_gguf_file_stands_for_it(tmp_path: Path) -> None:
    _gguf(tmp_path / "model.gguf", "llama")
    source = resolve(str(tmp_path))
    assert (source.kind, source.label) == (SourceKind.GGUF, "model")
