"""The experts shown are those that the library's own routers pick, and the figures say how evenly they were used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from app.errors import Cancelled, RefusedInput
from app.insight.balance import counts, loads, overall, tokens_of
from app.insight.routing import Routing, RoutingJob
from app.models.loading import LoadedModel, load_model
from app.models.options import LoadOptions, Quantization
from app.settings import Settings
from tests.models.tiny import tiny_ernie_moe, tiny_llama, tiny_mixtral, tiny_olmoe, tiny_qwen_moe

IDS = tuple(range(5, 65))
START = 20
EXACT = LoadOptions(Quantization("none", compute_dtype="float32"))


def routed(loaded: LoadedModel, *, chunk: int = 16, **fields: Any) -> Routing:
    job = RoutingJob(ids=IDS, start=START, **fields)
    job.answer(loaded, chunk)
    assert job.routing
    return job.routing


def routers(model: Any) -> list[Any]:
    """The library's routers, one a layer: modules that give logits, weights and numbers."""
    return [module for name, module in model.named_modules() if name.endswith("mlp.gate")]


def listened(model: Any) -> list[tuple[Any, Any]]:
    """What the library's routers pick in one pass over all ids: weights and experts of each layer."""
    picked: list[tuple[Any, Any]] = []
    hooks = [gate.register_forward_hook(lambda _m, _a, out: picked.append((out[1], out[2]))) for gate in routers(model)]
    with torch.inference_mode():
        model(input_ids=torch.tensor([IDS]))
    for hook in hooks:
        hook.remove()
    return picked


def test_ernies_experts_are_those_of_its_router_with_the_correction_bias(tmp_path: Path, settings: Settings) -> None:
    """Worked out from its router logits: the bias decides which, the plain probabilities how much."""
    loaded = load_model(str(tiny_ernie_moe(tmp_path / "moe")), settings, options=EXACT)
    model: Any = loaded.model
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([IDS]), output_router_logits=True).router_logits
    found = routed(loaded, chunk=len(IDS))
    assert found.layers == (1, 2)
    moved = 0
    for layer, gate in enumerate(routers(model)):
        bias = gate.moe_statics.e_score_correction_bias
        assert bias.abs().min() > 0
        chances = logits[layer][START:].softmax(dim=-1)
        wanted = (chances + bias).topk(2, dim=-1).indices
        moved += int((wanted.sort().values != chances.topk(2, dim=-1).indices.sort().values).any(dim=-1).sum())
        shares = chances.gather(-1, wanted)
        shares = shares / shares.sum(dim=-1, keepdim=True)
        order = shares.argsort(dim=-1, descending=True)
        assert np.array_equal(found.choice[:, layer], wanted.gather(-1, order).numpy())
        assert np.allclose(found.weight[:, layer], shares.gather(-1, order).numpy(), atol=1e-5)
        assert found.scores is not None
        assert np.allclose(found.scores[:, layer], logits[layer][START:].numpy(), rtol=2e-3, atol=2e-3)
    assert moved > 0, "the bias decides nothing in this test"


@pytest.mark.parametrize("make", [tiny_ernie_moe, tiny_mixtral, tiny_qwen_moe, tiny_olmoe])
@pytest.mark.parametrize("four_bit", [True, False])
def test_every_family_shows_what_its_own_routers_hand_over(
    make: Callable[[Path], Path], four_bit: bool, tmp_path: Path, settings: Settings
) -> None:
    options = LoadOptions() if four_bit else EXACT
    loaded = load_model(str(make(tmp_path / "moe")), settings, options=options)
    found = routed(loaded, chunk=len(IDS))
    for layer, (weights, experts) in enumerate(listened(loaded.model)):
        order = weights.float().argsort(dim=-1, descending=True, stable=True)[START:]
        assert np.array_equal(found.choice[:, layer], experts[START:].gather(-1, order).numpy())
        assert np.allclose(found.weight[:, layer], weights[START:].float().gather(-1, order).numpy())
    assert found.complete
    assert found.choice.shape == (40, len(found.layers), 2)


def test_chunks_make_no_difference_and_nothing_keeps_listening(tmp_path: Path, settings: Settings) -> None:
    loaded = load_model(str(tiny_ernie_moe(tmp_path / "moe")), settings, options=EXACT)
    whole, pieces = routed(loaded, chunk=len(IDS)), routed(loaded, chunk=7)
    assert np.array_equal(whole.choice, pieces.choice)
    assert np.allclose(whole.weight, pieces.weight, atol=1e-5)
    assert not any(module._forward_pre_hooks for module in loaded.model.modules())


def test_the_bias_is_told_from_the_routers_own_order(tmp_path: Path, settings: Settings) -> None:
    biased = routed(load_model(str(tiny_ernie_moe(tmp_path / "a")), settings, options=EXACT))
    plain = routed(load_model(str(tiny_mixtral(tmp_path / "b")), settings, options=EXACT))
    assert overall(loads(plain), plain)["overruled"] == 0
    assert np.array_equal(plain.place[0, 0], [0, 1])
    share = overall(loads(biased), biased)["overruled"]
    assert share is not None
    assert share > 0
    assert share == pytest.approx((biased.place >= 2).mean())


def test_memory_is_bounded_and_the_rest_is_not_even_read(tmp_path: Path, settings: Settings) -> None:
    loaded = load_model(str(tiny_ernie_moe(tmp_path / "moe")), settings, options=EXACT)
    per_token = 2 * (2 * (2 + 4 + 2) + 8 * 2)  # layers x (k x (choice, weight, place) + scores)
    job = RoutingJob(ids=IDS, start=START, limit=10 * per_token)
    job.answer(loaded, 8)
    assert job.routing
    assert not job.routing.complete
    assert len(job.routing.choice) == 10
    assert job.done == 32
    assert np.array_equal(job.routing.choice, routed(loaded, chunk=8).choice[:10])


def test_a_dense_model_says_so(tmp_path: Path, settings: Settings) -> None:
    loaded = load_model(str(tiny_llama(tmp_path / "dense")), settings)
    with pytest.raises(RefusedInput, match="This model is dense: every token passes through all of its weights"):
        routed(loaded)


def test_reading_can_be_stopped(tmp_path: Path, settings: Settings) -> None:
    loaded = load_model(str(tiny_mixtral(tmp_path / "moe")), settings, options=EXACT)
    job = RoutingJob(ids=IDS, start=START)
    job.cancelled.set()
    with pytest.raises(Cancelled):
        job.answer(loaded, 16)
    assert job.done == 0


def made(choice: list[list[int]], experts: int) -> Routing:
    """One layer, numbered 3, in which each token took the experts listed for it."""
    taken = np.array(choice, np.int16)[:, None, :]
    ones = np.ones(taken.shape, np.float32)
    return Routing((3,), experts, len(choice), taken, ones, np.full(taken.shape, -1, np.int16), None)


@pytest.mark.parametrize(
    ("choice", "entropy", "variation", "unused", "top_share"),
    [
        ([[0, 1], [2, 3]], 1.0, 0.0, 0, 0.25),
        ([[2], [2], [2]], 0.0, np.sqrt(3), 3, 1.0),
        ([[0, 1], [0, 1]], 0.5, 1.0, 2, 0.5),
        ([[0, -1], [1, -1]], 0.5, 1.0, 2, 0.5),
    ],
)
def test_balance(choice: list[list[int]], entropy: float, variation: float, unused: int, top_share: float) -> None:
    (load,) = loads(made(choice, 4))
    assert load.layer == 3
    assert load.entropy == pytest.approx(entropy)
    assert load.variation == pytest.approx(variation)
    assert (load.unused, load.top_share) == (unused, top_share)
    assert load.overruled is None


def test_the_tokens_of_an_expert() -> None:
    routing = made([[0, 1], [2, 3], [3, 0]], 4)
    assert counts(routing).tolist() == [[2, 1, 1, 2]]
    assert tokens_of(routing, 0, 3) == [1, 2]
    assert tokens_of(routing, 0, 1) == [0]
