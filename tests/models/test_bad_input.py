"""Every kind of broken or unfit model is refused with a sentence that names the cause."""

from __future__ import annotations

import gc
import json
import shutil
import weakref
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from app.errors import Cancelled, ModelDamaged, ModelError, ModelNotFound, OutOfMemory, UnsupportedModel
from app.models import budget, prepared
from app.models.loading import load_model, prepare_model, unload
from app.models.translate import as_model_error
from app.settings import Settings
from tests.models.test_prepared import _Usage
from tests.models.tiny import tiny_llama, tiny_t5


def _edit(folder: Path, file: str = "config.json", **fields: Any) -> None:
    value = json.loads((folder / file).read_text()) | fields
    (folder / file).write_text(json.dumps({k: v for k, v in value.items() if v is not None}))


def _refused(settings: Settings, name: Path | str, kind: type[ModelError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        load_model(str(name), settings)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(settings.cache.rglob("*.safetensors"))


def test_no_such_folder(settings: Settings, tmp_path: Path) -> None:
    _refused(settings, tmp_path / "nothing", ModelNotFound, "no model at", "nothing")


def test_not_a_name_at_all(settings: Settings) -> None:
    _refused(settings, "what is this?", ModelNotFound, "neither a file, a folder nor the id")


def test_a_hub_id_without_network(settings: Settings) -> None:
    _refused(settings, "someone/some-model", ModelNotFound, "someone/some-model", "--model PATH or FADER_MODEL")


def test_a_paddle_repository(settings: Settings) -> None:
    _refused(settings, "baidu/ERNIE-4.5-21B-A3B-Paddle", UnsupportedModel, "Paddle", "baidu/ERNIE-4.5-21B-A3B-PT")


def test_a_paddle_folder(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "model_state.pdparams").write_bytes(b"x")
    _refused(settings, tmp_path, UnsupportedModel, "Paddle", "-PT")


def test_a_folder_without_config(settings: Settings, llama: Path) -> None:
    (llama / "config.json").unlink()
    _refused(settings, llama, ModelDamaged, "no config.json")


def test_a_config_that_is_no_json(settings: Settings, llama: Path) -> None:
    (llama / "config.json").write_text("{ not json")
    _refused(settings, llama, ModelDamaged, "config.json can't be read")


def test_a_folder_without_weights(settings: Settings, llama: Path) -> None:
    (llama / "model.safetensors").unlink()
    _refused(settings, llama, ModelDamaged, "has no weights")


def test_a_missing_shard(settings: Settings, tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "sharded", max_shard_size="100KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    shards[1].unlink()
    _refused(settings, folder, ModelDamaged, f"1 of {len(shards)} shards", shards[1].name)


def test_a_truncated_file(settings: Settings, llama: Path) -> None:
    file = llama / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    _refused(settings, llama, ModelDamaged, "bytes instead of", "Fetch it again")


def test_a_truncated_shard_of_several(settings: Settings, tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "sharded", max_shard_size="100KB")
    shard = max(folder.glob("model-*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-10])
    _refused(settings, folder, ModelDamaged, shard.name, "bytes instead of")


@pytest.mark.parametrize("text", ["{}", '{"weight_map": null}', "[]", "{"])
def test_an_index_that_names_nothing(settings: Settings, tmp_path: Path, text: str) -> None:
    folder = tiny_llama(tmp_path / "sharded", max_shard_size="100KB")
    (folder / "model.safetensors.index.json").write_text(text)
    _refused(settings, folder, ModelDamaged, "model.safetensors.index.json")


@pytest.mark.parametrize("kept", [0, 100, 0.5])
def test_a_torch_file_that_is_cut_short(settings: Settings, llama: Path, kept: float) -> None:
    torch.save(load_file(llama / "model.safetensors"), llama / "pytorch_model.bin")
    (llama / "model.safetensors").unlink()
    whole = (llama / "pytorch_model.bin").read_bytes()
    (llama / "pytorch_model.bin").write_bytes(whole[: int(len(whole) * kept if kept < 1 else kept)])
    _refused(settings, llama, ModelDamaged, "damaged or incomplete")


def test_weights_that_paddle_wrote(settings: Settings, llama: Path) -> None:
    file = llama / "model.safetensors"
    save_file(load_file(file), file, metadata={"format": "paddle"})
    _refused(settings, llama, UnsupportedModel, "written by Paddle", "-PT")


def test_a_file_that_is_no_safetensors(settings: Settings, llama: Path) -> None:
    (llama / "model.safetensors").write_bytes(b"<html>not found</html>")
    _refused(settings, llama, ModelDamaged, "damaged")


def test_weights_of_another_model(settings: Settings, llama: Path) -> None:
    _edit(llama, num_hidden_layers=3)
    _refused(settings, llama, ModelDamaged, "incomplete", "missing", "layers.2")


def test_weights_of_another_shape(settings: Settings, llama: Path) -> None:
    _edit(llama, intermediate_size=192)
    _refused(settings, llama, ModelDamaged, "other shapes", "mlp")


def test_an_unknown_architecture(settings: Settings, llama: Path) -> None:
    _edit(llama, model_type="hovercraft", architectures=["HovercraftForCausalLM"])
    _refused(settings, llama, UnsupportedModel, "hovercraft", "HovercraftForCausalLM")


def test_an_architecture_that_does_not_chat(settings: Settings, llama: Path) -> None:
    _edit(llama, model_type="vit", architectures=["ViTForImageClassification"])
    _refused(settings, llama, UnsupportedModel, "vit", "ViTForImageClassification")


def test_code_from_its_author_is_never_run(settings: Settings, llama: Path) -> None:
    _edit(llama, model_type="mine", auto_map={"AutoModelForCausalLM": "evil.Evil"})
    (llama / "evil.py").write_text("raise SystemExit('ran')")
    _refused(settings, llama, UnsupportedModel, "never executes")


def test_a_known_architecture_that_brings_code_loads_without_it(settings: Settings, llama: Path) -> None:
    _edit(llama, auto_map={"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"})
    (llama / "evil.py").write_text("raise SystemExit('ran')")
    loaded = load_model(str(llama), settings)
    assert type(loaded.model).__name__ == "LlamaForCausalLM"
    unload(loaded)


def test_no_tokenizer(settings: Settings, llama: Path) -> None:
    (llama / "tokenizer.json").unlink()
    (llama / "tokenizer_config.json").unlink()
    _refused(settings, llama, ModelDamaged, "no tokenizer")


def test_a_damaged_tokenizer(settings: Settings, llama: Path) -> None:
    (llama / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelDamaged, match="tokenizer"):
        load_model(str(llama), settings)


def test_not_enough_memory(settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 1_000_000)
    _refused(settings, llama, OutOfMemory, "was not loaded", "0.0 GB are free")


def test_not_enough_memory_for_a_copy_that_is_there(
    settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_model(str(llama), settings)
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 1_000_000)
    with pytest.raises(OutOfMemory, match="was not loaded") as caught:
        load_model(str(llama), settings)
    assert caught.value.missing is not None
    assert caught.value.missing > 1_000_000


def test_not_enough_memory_to_unpack_a_gguf_file(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "free_bytes", lambda _options: 1_000_000)
    _refused(settings, "builtin", OutOfMemory, "Unpacking the GGUF file takes about", "0.0 GB are free")


def test_no_space_to_unpack_a_gguf_file(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Usage(10, 10, 0))
    _refused(settings, "builtin", ModelError, "GB are free", "set FADER_CACHE")


@pytest.mark.parametrize(
    "full", [OSError(28, "No space left on device"), RuntimeError("I/O error: No space left on device")]
)
def test_a_disk_that_becomes_full_while_writing(
    settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch, full: Exception
) -> None:
    """The model loads all the same, quantized in memory; nothing half-written is left, and the reason is said."""

    def fails(*_: object, **__: object) -> None:
        raise full

    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", fails)
    loaded = load_model(str(llama), settings)
    assert loaded.report.linear_share_4bit == 1.0
    (warning,) = loaded.report.warnings
    assert "not kept for the next start" in warning
    assert "became full" in warning
    assert list(prepared.root(settings.cache).iterdir()) == []
    unload(loaded)


@pytest.mark.parametrize("step", ["Quantizing to 4 bits", "Writing the 4-bit weights", "Loading the weights"])
def test_cancelled_wherever_it_is_leaves_nothing_half_written(settings: Settings, llama: Path, step: str) -> None:
    cancelled = Event()

    def stop(what: str, _done: int, _total: int) -> None:
        if what == step:
            cancelled.set()

    with pytest.raises(Cancelled):
        load_model(str(llama), settings, progress=stop, cancelled=cancelled)
    left = list(prepared.root(settings.cache).iterdir())
    assert all(prepared.why_unusable(folder, None) is None for folder in left)
    assert len(left) == (1 if step == "Loading the weights" else 0)
    unload(load_model(str(llama), settings))


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (MemoryError(), OutOfMemory),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            OutOfMemory,
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), OutOfMemory),
        (OSError(28, "No space left on device"), ModelError),
        (RuntimeError("I/O error: No space left on device (os error 28)"), ModelError),
        (ImportError("Loading an AWQ model requires `gptqmodel`"), UnsupportedModel),
        (RuntimeError("something else\nwith a long tail"), ModelError),
    ],
)
def test_what_libraries_raise_becomes_a_sentence(cause: Exception, kind: type[ModelError]) -> None:
    error = as_model_error("Some-Model", cause)
    assert type(error) is kind
    assert "Some-Model" in str(error)
    assert "long tail" not in str(error)


def test_an_error_that_is_kept_keeps_no_model(settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine shows the error for as long as the user likes; the half-loaded model must be gone by then."""
    alive: list[weakref.ref[Any]] = []

    def fail(model: Any) -> None:
        alive.append(weakref.ref(model))
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr("app.models.loading.warm_up", fail)
    with pytest.raises(ModelError) as caught:
        load_model(str(llama), settings)
    gc.collect()
    assert caught.value.__cause__ is not None
    assert alive[0]() is None


def test_after_a_refusal_the_next_model_loads(settings: Settings, tmp_path: Path, llama: Path) -> None:
    (llama / "config.json").unlink()
    _refused(settings, llama, ModelDamaged)
    loaded = load_model(str(tiny_t5(tmp_path / "t5")), settings)
    assert loaded.facts.is_encoder_decoder
    unload(loaded)
