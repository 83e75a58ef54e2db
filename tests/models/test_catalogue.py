"""Names mean what the user expects, the list tells what is here, estimates come close to what a load then takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import ModelNotFound
from app.models import budget, prepared
from app.models.budget import estimate
from app.models.catalogue import list_models, resolve
from app.models.loading import LoadedModel, load_model, prepare_model, unload
from app.models.options import LoadOptions, Quantization
from app.models.source import SourceKind
from app.settings import Settings
from tests.models.tiny import tiny_llama


def test_names(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("builtin").kind is SourceKind.BUILTIN
    assert resolve(str(llama)).kind is SourceKind.FOLDER
    assert resolve("HuggingFaceTB/SmolLM2-135M-Instruct").kind is SourceKind.HUB
    monkeypatch.chdir(llama.parent)
    assert resolve(llama.name).path == llama.resolve()


@pytest.mark.parametrize("name", ["./nothing", "~/nothing", "nothing.gguf", "a/b/c", "", "../x", "two words"])
def test_names_that_mean_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound):
        resolve(name)


def test_the_list_has_builtin_and_prepared_models_with_sizes(llama: Path, settings: Settings) -> None:
    prepare_model(str(llama), settings)
    entries = {entry.kind: entry for entry in list_models(settings)}
    assert entries["builtin"].nbytes > 90_000_000
    assert entries["prepared"].name == str(llama)
    assert entries["prepared"].quantization == "nf4"
    assert entries["prepared"].nbytes > 50_000


def test_an_unreadable_prepared_folder_is_not_listed(llama: Path, settings: Settings) -> None:
    (prepare_model(str(llama), settings) / "manifest.json").write_text("[]")
    assert prepared.every(settings.cache) == ()
    list_models(settings)


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom app.models.catalogue import list_models\nfrom app.models.loading import load_model\n"
        "from app.settings import Settings\nlist_models(Settings())\n"
        "assert not {'torch', 'transformers', 'bitsandbytes'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_an_estimate_comes_close_to_the_truth(builtin: LoadedModel, model_cache: Path) -> None:
    found = estimate("builtin", Settings(cache=model_cache), context=1024)
    assert found.parameters == 134_515_008
    assert abs(found.weights_bytes - builtin.report.resident_bytes) < 0.01 * builtin.report.resident_bytes
    assert found.kv_bytes == 1024 * 30 * 2 * 3 * 64 * 2  # layers, keys and values, heads, size, bytes
    assert found.needed_bytes == found.weights_bytes + found.kv_bytes + found.working_bytes
    assert found.fits
    assert "Fits" in found.verdict


def test_an_estimate_needs_no_weights(llama: Path, settings: Settings) -> None:
    (llama / "model.safetensors").unlink()
    dense = estimate(str(llama), settings, options=LoadOptions(Quantization("none")))
    four_bit = estimate(str(llama), settings)
    assert dense.weights_bytes == dense.parameters * 2
    assert four_bit.weights_bytes < dense.weights_bytes


def test_a_dense_estimate_is_exact(llama: Path, settings: Settings) -> None:
    options = LoadOptions(Quantization("none"))
    loaded = load_model(str(llama), settings, options=options)
    found = estimate(str(llama), settings, options=options)
    assert abs(found.weights_bytes - loaded.report.resident_bytes) < 0.01 * loaded.report.resident_bytes
    unload(loaded)


@pytest.mark.parametrize(("free", "fits", "word"), [(10**6, False, "Doesn’t fit"), (4 * 10**8, True, "Tight")])
def test_verdicts(
    llama: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, free: int, fits: bool, word: str
) -> None:
    monkeypatch.setattr(budget, "free_bytes", lambda _options: free)
    found = estimate(str(llama), settings)
    assert found.fits is fits
    assert found.verdict.startswith(word)


def test_an_unknown_hub_model_without_network(settings: Settings) -> None:
    with pytest.raises(ModelNotFound, match="someone/some-model"):
        estimate("someone/some-model", settings)


def test_a_hub_model_in_the_cache_needs_no_network(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's cache layout: models--owner--name/{refs/main, snapshots/<commit>/…}."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--someone--tiny"
    tiny_llama(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    loaded = load_model("someone/tiny", settings)
    assert loaded.facts.fingerprint["source"]["revision"] == commit
    assert ("someone/tiny", "hub") in {(entry.name, entry.kind) for entry in list_models(settings)}
    unload(loaded)
