"""While a prompt is read, the output layer sees the last place of each chunk only (``logits_to_keep``): a vocabulary is wide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.engine.engine import Engine
from app.models.service import ModelService
from app.settings import Settings
from tests.engine.conftest import OneModel, request_for
from tests.models.tiny import tiny_ernie_moe, tiny_llama


@pytest.mark.parametrize("make", [tiny_llama, tiny_ernie_moe])
@pytest.mark.parametrize("asked", [{}, {"num_beams": 2}, {"output_hidden_states": True}])
def test_the_output_layer_sees_one_place_of_each_chunk(
    make: Callable[[Path], Path], asked: dict[str, Any], tmp_path: Path, shared_cache: Path
) -> None:
    loaded = ModelService(Settings(cache=shared_cache)).load(str(make(tmp_path / "model")))
    models = OneModel(loaded)
    models.gate.set()
    engine = Engine(models, Settings(prefill_chunk=16, fast_step=False))
    assert engine.load("tiny").finished.wait(60)
    places: list[int] = []
    head: Any = loaded.model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _module, args: places.append(args[0].shape[1]))
    try:
        run = engine.submit(request_for("hello there " * 15, requested={"max_new_tokens": 3, "seed": 1, **asked}))
        prompt = run.result(60).run.prompt_ids
    finally:
        hook.remove()
        engine.close()
    assert len(prompt) > 3 * 16
    assert len(places) >= 4
    assert set(places) == {1}
