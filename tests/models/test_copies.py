"""Prepared copies are listed with their sizes and deleted by name; nothing outside the cache folder ever is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.errors import NotFound
from app.models import prepared
from app.models.loading import load_model, prepare_model, unload
from app.models.options import LoadOptions, Quantization
from app.models.service import ModelService
from app.settings import Settings


def test_copies_are_listed_with_what_they_are_and_deleted_one_by_one(settings: Settings, llama: Path) -> None:
    nf4 = prepare_model(str(llama), settings)
    fp4 = prepare_model(str(llama), settings, options=LoadOptions(Quantization("fp4")))
    service = ModelService(settings)
    listed = {copy.name: copy for copy in service.copies()}
    assert set(listed) == {nf4.name, fp4.name}
    assert listed[fp4.name].settings == "fp4-double-bfloat16"
    assert listed[nf4.name].of == str(llama)
    assert listed[nf4.name].nbytes == sum(
        file.stat().st_size for file in nf4.iterdir() if file.name != prepared.MANIFEST
    )
    assert service.remove_copy(nf4.name).name == nf4.name
    assert not nf4.exists()
    assert fp4.exists()
    assert [file.name for file in prepared.root(settings.cache).iterdir()] == [fp4.name]


def test_one_that_another_version_left_is_listed_and_can_go(settings: Settings, llama: Path) -> None:
    folder = prepare_model(str(llama), settings)
    manifest = json.loads((folder / prepared.MANIFEST).read_text())
    (folder / prepared.MANIFEST).write_text(json.dumps(manifest | {"format": 1, "quantization": {"bits": 4}}))
    service = ModelService(settings)
    assert [(copy.usable, copy.settings) for copy in service.copies()] == [(False, "")]
    (folder / prepared.MANIFEST).write_text("{")
    (unreadable,) = service.copies()
    assert not unreadable.usable
    assert unreadable.nbytes > 10_000
    service.remove_copy(unreadable.name)
    assert service.copies() == ()


@pytest.mark.parametrize("name", ["..", ".", "", "../..", "nothing"])
def test_only_copies_can_be_deleted(settings: Settings, llama: Path, name: str) -> None:
    folder = prepare_model(str(llama), settings)
    service = ModelService(settings)
    for wrong in (name, str(folder), str(llama), f"../prepared/{folder.name}"):
        with pytest.raises(NotFound):
            service.remove_copy(wrong)
    assert folder.exists()
    assert (llama / "model.safetensors").exists()


def test_a_link_to_a_folder_of_the_users_is_no_copy(settings: Settings, llama: Path) -> None:
    prepared.root(settings.cache).mkdir(parents=True)
    (prepared.root(settings.cache) / "link").symlink_to(llama, target_is_directory=True)
    service = ModelService(settings)
    assert service.copies() == ()
    with pytest.raises(NotFound):
        service.remove_copy("link")
    assert (llama / "config.json").exists()


def test_after_deleting_a_copy_the_model_is_prepared_anew(settings: Settings, llama: Path) -> None:
    service = ModelService(settings)
    service.remove_copy(prepare_model(str(llama), settings).name)
    loaded = load_model(str(llama), settings)
    assert loaded.report.warnings == ()
    assert len(service.copies()) == 1
    unload(loaded)
