"""However the first process ends, the others end with it; torchrun may start them all; what can't be spread is refused in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import transformers

from app.distributed.joining import join_torchrun, torchrun_rank
from app.distributed.plan import check_spread
from app.engine.engine import Engine
from app.errors import FaderError, RefusedInput
from app.models.budget import estimate
from app.settings import Settings
from tests.distributed.conftest import use
from tests.engine.conftest import request_for
from tests.models.tiny import tiny_llama


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("together") / "llama")


def test_the_others_end_when_the_first_process_is_killed(llama: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.distributed.leader", str(llama)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout
        (other,) = json.loads(first.stdout.readline())["others"]
        process = psutil.Process(other)
        first.kill()
        _, alive = psutil.wait_procs([process], timeout=30)
    assert not alive


@pytest.mark.full
def test_torchrun_starts_them_all(one: Engine, llama: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "-m",
            "tests.distributed.leader",
            str(llama),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    told = json.loads(line)
    use(one, llama)
    alone = one.submit(request_for("hello", requested={"max_new_tokens": 8, "do_sample": False})).result(60)
    assert told == {"others": [], "ids": list(alone.run.output_ids)}


def test_torchrun_must_start_as_many_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torchrun_rank() is None
    for name, value in {"WORLD_SIZE": "4", "RANK": "3", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    assert torchrun_rank() == 3
    with pytest.raises(RefusedInput, match="--tensor-parallel 4"):
        join_torchrun(2)


def test_ask_over_two_processes(llama: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "app", "ask", "hello", "--json", "--seed", "1", "--tensor-parallel", "2"),
            *("--model", str(llama), "-p", "max_new_tokens=5", "-p", "min_new_tokens=5"),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stats"]["new_tokens"] == 5
    assert "note: The model is spread over 2 processes, in 16 bits" in done.stderr


def config(name: str, **fields: Any) -> Any:
    return getattr(transformers, name)(**fields)


@pytest.mark.parametrize(
    ("made", "size", "words"),
    [
        (
            config("LlamaConfig", hidden_size=576, num_attention_heads=9, num_key_value_heads=3),
            2,
            "9 attention heads and 3 key-value heads",
        ),
        (
            config("LlamaConfig", hidden_size=576, num_attention_heads=9, num_key_value_heads=3),
            4,
            "--tensor-parallel 3 would work",
        ),
        (config("LlamaConfig", hidden_size=448, num_attention_heads=7, num_key_value_heads=1), 2, "one process only"),
        (config("Ernie4_5_MoeConfig", moe_intermediate_size=63), 2, "63 columns in an expert"),
        (config("T5Config"), 2, "only models that just decode"),
        (config("GPT2Config"), 2, "no plan for spreading"),
        (config("LlamaConfig", quantization_config={"quant_method": "bitsandbytes"}), 2, "stored quantized"),
    ],
)
def test_what_cannot_be_spread_is_refused_in_words(made: Any, size: int, words: str) -> None:
    with pytest.raises(FaderError, match=words.replace(".", r"\.")):
        check_spread(made, "Model", size)


def test_one_card_cannot_be_chosen_for_a_spread_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(RefusedInput, match="can't be put on cuda:1"):
        check_spread(config("LlamaConfig"), "Model", 4, "cuda:1")


@pytest.mark.parametrize(("cards", "words"), [(1, "there is one graphics card"), (3, "there are 3 graphics cards")])
def test_each_process_needs_a_card(monkeypatch: pytest.MonkeyPatch, cards: int, words: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
    with pytest.raises(RefusedInput, match=words):
        check_spread(config("LlamaConfig"), "Model", 4)


def test_the_estimate_of_a_spread_model_is_of_16_bits(llama: Path, tmp_path: Path) -> None:
    plain, spread = (
        estimate(str(llama), Settings(home=tmp_path, cache=tmp_path, tensor_parallel=size)) for size in (1, 2)
    )
    assert (plain.quantization, spread.quantization) == ("nf4", "none")
    assert spread.weights_bytes > plain.weights_bytes
