"""What can be chosen about a load: one table, checked values, kept for the next start, and the truth told afterwards."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from app.errors import BadParameter, UnsupportedModel
from app.models import choices, devices, remembered
from app.models.catalogue import resolve
from app.models.loading import load_model, unload
from app.models.options import Attention, LoadOptions, Quantization, Scheme
from app.models.service import ModelService
from app.settings import Settings
from tests.models.tiny import tiny_llama


def test_every_option_has_a_row_and_every_scheme_is_offered() -> None:
    options = {field.name for field in fields(LoadOptions)} - {"quantization"}
    assert {row.name for row in choices.ROWS} == options | {field.name for field in fields(Quantization)}
    rows = {row.name: row for row in choices.ROWS}
    assert rows["scheme"].values == get_args(Scheme)
    assert rows["attention"].values == get_args(Attention)
    assert all(row.help and row.takes in choices.TAKES for row in choices.ROWS)


def test_values_are_taken_as_a_command_line_gives_them() -> None:
    asked = {"scheme": "fp4", "double_quant": "off", "compute_dtype": "float32", "attention": "eager", "device": "cpu"}
    options = choices.changed(LoadOptions(), asked)
    assert options == LoadOptions(Quantization("fp4", double_quant=False, compute_dtype="float32"), "eager", "cpu")
    assert choices.changed(LoadOptions(), choices.as_json(options)) == options


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("scheme", "int3", "'int3' is not one of auto, nf4, fp4"),
        ("double_quant", "perhaps", "not one of on, off"),
        ("colour", "blue", "there is no such setting of a load; there are scheme, double_quant"),
        ("device", "tpu", "not one of"),
        ("device", "cuda", "no graphics card"),
        ("device", "cuda:3", "no graphics card"),
        ("attention", "flash_attention_2", "needs a graphics card"),
    ],
)
def test_what_cannot_be_is_refused_by_name(name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cards", lambda: 0)
    with pytest.raises(BadParameter) as caught:
        choices.changed(LoadOptions(), {name: value})
    assert caught.value.name == name
    assert words in caught.value.why


def test_what_this_machine_cannot_do_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cards", lambda: 0)
    assert choices.offered("device", LoadOptions()) == ("auto", "cpu")
    assert choices.offered("device", LoadOptions(device="cuda")) == ("auto", "cpu", "cuda")
    monkeypatch.setattr(devices, "cards", lambda: 2)
    assert choices.offered("device", LoadOptions()) == ("auto", "cpu", "cuda", "cuda:0", "cuda:1")


def test_a_change_is_told_with_what_it_takes_unless_it_changes_nothing() -> None:
    dense, four_bit = LoadOptions(Quantization("none")), LoadOptions()
    changed = choices.differences(four_bit, choices.changed(four_bit, {"attention": "eager", "scheme": "fp4"}))
    assert [(row.name, row.takes) for row in changed] == [("scheme", "preparation"), ("attention", "load")]
    assert choices.differences(dense, choices.changed(dense, {"double_quant": False, "save_prepared": False})) == ()
    rows = {row.name: row for row in choices.ROWS}
    assert choices.needs(rows["compute_dtype"], four_bit) == "a new 4-bit copy"
    assert choices.needs(rows["compute_dtype"], dense) == "a new load"
    assert choices.needs(rows["scheme"], dense) == "a new 4-bit copy"
    assert "not quantized" in choices.idle(dense, "double_quant")
    assert choices.idle(four_bit, "double_quant") == ""


def test_what_was_chosen_is_kept_for_each_model(settings: Settings, llama: Path) -> None:
    wanted = LoadOptions(Quantization("fp4"), attention="eager")
    remembered.remember(settings.home, resolve(str(llama)), wanted)
    assert remembered.options_for(settings.home, resolve(str(llama))) == wanted
    assert remembered.options_for(settings.home, resolve("builtin")) == LoadOptions()
    remembered.remember(settings.home, resolve(str(llama)), LoadOptions())
    assert not remembered.chosen(settings.home, resolve(str(llama)))
    assert json.loads((settings.home / "models.json").read_text()) == {}
    assert [file.name for file in settings.home.iterdir()] == ["models.json"]


def test_however_a_folder_is_named_it_is_the_same_model(
    settings: Settings, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered.remember(settings.home, resolve(str(llama)), LoadOptions(attention="eager"))
    monkeypatch.chdir(llama.parent)
    assert remembered.options_for(settings.home, resolve(f"./{llama.name}")).attention == "eager"


@pytest.mark.parametrize("text", ["", "[1]", '{"builtin": 3}', '{"builtin": {"scheme": "gone", "attention": "eager"}}'])
def test_a_file_that_makes_no_sense_is_read_as_far_as_it_does(settings: Settings, text: str) -> None:
    settings.home.mkdir()
    (settings.home / "models.json").write_text(text)
    options = remembered.options_for(settings.home, resolve("builtin"))
    assert options.quantization == Quantization()
    assert options.attention == ("eager" if "eager" in text else "auto")


def test_a_load_with_choices_is_how_the_next_one_goes_and_one_that_fails_is_not(
    settings: Settings, llama: Path
) -> None:
    service = ModelService(settings)
    wanted = LoadOptions(Quantization("none", compute_dtype="float32"), attention="eager")
    service.unload(service.load(str(llama), options=wanted))
    again = ModelService(settings).load(str(llama))
    assert again.facts.load_options == choices.as_json(wanted)
    assert (again.facts.quantization, again.facts.attention) == ("none", "eager")
    assert set(again.report.bytes_by_dtype) == {"float32"}
    service.unload(again)
    with pytest.raises(UnsupportedModel, match="cuda:9"):
        service.load(str(llama), options=LoadOptions(device="cuda:9"))
    assert service.options(str(llama)) == wanted


def test_measuring_is_a_trial(settings: Settings, llama: Path) -> None:
    service = ModelService(settings)
    report = service.measure(str(llama), options=LoadOptions(Quantization("fp4"), attention="eager"))
    assert (report["options"]["scheme"], report["attention"], report["device"]) == ("fp4", "eager", "cpu")
    assert service.options(str(llama)) == LoadOptions()


@pytest.mark.parametrize("asked", ["auto", "sdpa", "eager"])
def test_the_attention_that_computes_is_the_one_that_is_told(settings: Settings, llama: Path, asked: Any) -> None:
    loaded = load_model(str(llama), settings, options=LoadOptions(attention=asked))
    told = "eager" if asked == "eager" else "sdpa"
    assert loaded.facts.attention == loaded.facts.fingerprint["attention"] == told
    assert loaded.facts.load_options["attention"] == asked
    unload(loaded)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("scheme", ["nf4", "none"])
def test_every_compute_dtype_computes(settings: Settings, tmp_path: Path, scheme: Any, dtype: Any) -> None:
    folder = tiny_llama(tmp_path / "m")
    loaded = load_model(str(folder), settings, options=LoadOptions(Quantization(scheme, compute_dtype=dtype)))
    assert loaded.model.get_input_embeddings().weight.dtype is getattr(torch, dtype)
    assert torch.isfinite(loaded.model(input_ids=torch.tensor([[1, 2, 3]])).logits).all()
    unload(loaded)
