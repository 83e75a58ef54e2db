"""The fast step: the same answers as the stock forward, position by position, in far less time; gives way where it can't."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from app.conversation import RunStatus
from app.engine.engine import Engine
from app.engine.fast.fits import why_not
from app.engine.fast.proof import Agreement, compare, decoding_for
from app.engine.fast.replies import ROOM
from app.engine.fast.step import FastStep
from app.engine.fast.tempo import Tempo
from app.insight.replay import compare as hold_against
from app.insight.replay import request_for as replay_of
from app.models.loading import LoadedModel
from app.models.service import ModelService
from app.native.library import Kernels
from app.settings import Settings
from tests.engine.conftest import OneModel, request_for
from tests.models.tiny import tiny_decoder, tiny_ernie_moe, tiny_llama, tiny_mixtral, tiny_olmoe

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "one head of keys": {"num_key_value_heads": 1, "head_dim": 32},
    "as many keys as queries": {"num_key_value_heads": 4},
    "untied head": {"tie_word_embeddings": False},
    "linear positions": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}},
    "llama3 positions": {"rope_parameters": LLAMA3},
}


def kernels_of(loaded: LoadedModel) -> Kernels:
    assert loaded.kernels is not None, loaded.without_kernels
    return loaded.kernels


def load(folder: Path, cache: Path) -> LoadedModel:
    return ModelService(Settings(cache=cache)).load(str(folder))


@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_of_llama_agrees_with_its_stock_forward(name: str, tmp_path: Path, shared_cache: Path) -> None:
    loaded = load(tiny_llama(tmp_path / "m", **VARIANTS[name]), shared_cache)
    model = loaded.model
    with torch.no_grad():
        for parameter, tensor in model.named_parameters():
            if parameter.endswith("bias"):
                tensor.copy_(torch.linspace(-1, 1, tensor.numel()))
    assert why_not(model) is None
    found = compare(model, FastStep(model, kernels_of(loaded)), 64)
    assert found.greedy >= 0.98
    assert found.divergence < 0.01


@pytest.mark.parametrize("family", ["Mistral", "Qwen2", "Qwen3", "Ernie4_5"])
def test_relatives_of_llama_agree_with_their_stock_forward(family: str, tmp_path: Path, shared_cache: Path) -> None:
    more: dict[str, Any] = {"sliding_window": None} if family == "Mistral" else {}
    loaded = load(tiny_decoder(tmp_path / "m", family, **more), shared_cache)
    model = loaded.model
    with torch.no_grad():  # make what this family alone has count
        for parameter, tensor in model.named_parameters():
            if parameter.endswith(("bias", "q_norm.weight", "k_norm.weight")):
                tensor.copy_(torch.linspace(0.5, 1.5, tensor.numel()))
    assert why_not(model) is None
    found = compare(model, FastStep(model, kernels_of(loaded)), 64)
    assert found.greedy >= 0.98
    assert found.divergence < 0.01


@pytest.mark.parametrize("write", [tiny_llama, tiny_ernie_moe, tiny_mixtral, lambda path: tiny_decoder(path, "Qwen3")])
def test_several_replies_get_the_bits_that_each_gets_alone(write: Any, tmp_path: Path, shared_cache: Path) -> None:
    loaded = load(write(tmp_path / "m"), shared_cache)
    step = FastStep(loaded.model, kernels_of(loaded))
    prompt = torch.arange(1, 30)[None]
    tokens = [[(7 * row + 3 * n) % 300 for n in range(6)] for row in range(7)]

    def begin() -> None:
        from transformers import DynamicCache

        cache = DynamicCache(config=loaded.model.config)
        with torch.no_grad():
            loaded.model(prompt, cache=cache)
        step.begin(cache)

    alone = []
    for own in tokens:
        begin()
        alone.append(torch.stack([step(token)[0, 0] for token in own]))
    begin()
    step.replies.keep([0] * 7)
    places = list(range(7))
    for n in range(6):
        if n == 3:  # some leave, in the middle of a group of four too
            places = [0, 2, 5, 6]
            step.replies.keep(places)
        logits = step.replies.step([tokens[place][n] for place in places])
        for row, place in enumerate(places):
            assert torch.equal(logits[row], alone[place][n])
    step.end()


def test_the_trial_notices_positions_turned_the_wrong_way(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.fast.step.NEIGHBOURS", ())
    decoding = decoding_for(load(tiny_decoder(tmp_path / "m", "Ernie4_5"), shared_cache))
    assert decoding.step is None
    assert "agreement" in (decoding.reason or "")


def test_a_sliding_window_stays_with_the_library(tmp_path: Path, shared_cache: Path) -> None:
    loaded = load(tiny_decoder(tmp_path / "m", "Mistral", sliding_window=32), shared_cache)
    assert decoding_for(loaded).reason == "not with a sliding window"


def test_the_builtin_model_agrees_and_is_served(shared_cache: Path) -> None:
    loaded = ModelService(Settings(cache=shared_cache)).load("builtin")
    decoding = decoding_for(loaded)
    assert decoding.step is not None
    assert compare(loaded.model, decoding.step, 64).enough


def test_the_buffer_grows_without_a_seam(tiny: LoadedModel) -> None:
    step = FastStep(tiny.model, kernels_of(tiny))
    fresh, length = torch.arange(ROOM + 8) % 300, ROOM - 4
    grown = _logits(step, tiny.model, fresh, length)
    stock = tiny.model(fresh[None]).logits[0, length:].float()
    assert grown.argmax(-1).tolist() == stock.argmax(-1).tolist()


def _logits(step: FastStep, model: Any, ids: torch.Tensor, length: int) -> torch.Tensor:
    """Logits after every token from ``length`` on, the ones before having been prefilled."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids[None, :length], cache=cache)
    step.begin(cache)
    rows = torch.stack([step(int(token))[0, -1].float() for token in ids[length:]])
    step.end()
    return rows


def test_the_step_leaves_the_stock_forward_as_it_was(tmp_path: Path, shared_cache: Path) -> None:
    loaded, ids = load(tiny_llama(tmp_path / "m", seed=3), shared_cache), torch.arange(9)[None]
    with torch.no_grad():
        before = loaded.model(ids).logits
        FastStep(loaded.model, kernels_of(loaded))
        assert torch.equal(loaded.model(ids).logits, before)


@pytest.mark.parametrize("make", [tiny_ernie_moe, tiny_mixtral])
def test_mixtures_of_experts_agree_with_their_stock_forward(make: Any, tmp_path: Path, shared_cache: Path) -> None:
    """Also the correction bias, which sways the choice of experts and not their weights."""
    loaded = load(make(tmp_path / "moe"), shared_cache)
    found = compare(loaded.model, FastStep(loaded.model, kernels_of(loaded)), 64)
    assert found.greedy >= 0.98
    assert found.divergence < 0.01


def test_threads_change_no_bit(tiny: LoadedModel) -> None:
    kernels = kernels_of(tiny)
    step, ids, found = FastStep(tiny.model, kernels), torch.arange(20) * 7 % 300, []
    for threads in (1, 3, 2):
        step.replies.tempo = Tempo(threads, threads)
        found.append(_logits(step, tiny.model, ids, 8))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_two_engines_step_at_once_with_threads_of_their_own(tiny: LoadedModel) -> None:
    """The library's threads serve both; one of them may take more or fewer while the other works."""
    ids, steps = torch.arange(20) * 7 % 300, [FastStep(tiny.model, kernels_of(tiny)) for _ in range(2)]
    alone = _logits(steps[0], tiny.model, ids, 8)

    def write(step: FastStep) -> list[torch.Tensor]:
        found = []
        for turn in range(24):
            threads = 1 + turn % 3
            step.replies.tempo = Tempo(threads, threads)
            found.append(_logits(step, tiny.model, ids, 8))
        return found

    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(write, steps):
            assert all(torch.equal(alone, logits) for logits in found)


def test_experts_of_another_kind_stay_with_the_library(tmp_path: Path, shared_cache: Path) -> None:
    experts = decoding_for(load(tiny_olmoe(tmp_path / "moe"), shared_cache))
    assert (experts.step, experts.reason) == (None, "not for models of type olmoe")


def test_without_kernels_the_library_decodes_and_says_why(tiny: LoadedModel) -> None:
    without = decoding_for(replace(tiny, kernels=None, without_kernels="no C compiler was found"))
    assert (without.step, without.reason) == (None, "no C compiler was found")


def test_a_step_that_disagrees_gives_way(tiny: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.fast.proof.compare", lambda *_: Agreement(0.5, 0.0))
    assert (decoding_for(tiny).step, decoding_for(tiny).reason) == (None, "only 50% agreement")


def test_off_by_a_setting(tiny: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADER_FAST_STEP", "0")
    assert decoding_for(tiny, wanted=Settings().fast_step).step is None


def test_a_fault_in_the_step_ends_the_run_and_the_next_one_works(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        sentence = "the lamp went out"
        raise ValueError(sentence)

    with monkeypatch.context() as patch:
        patch.setattr("app.engine.fast.replies.Replies.follow", failing)
        ended = reply(engine)
    assert ended.run.status is RunStatus.FAILED
    assert "the lamp went out" in (ended.run.error or "")
    assert reply(engine).run.status is RunStatus.DONE


def test_a_forward_that_somebody_listens_to_is_called(engine: Engine, tiny: LoadedModel) -> None:
    seen: list[int] = []
    hook = tiny.model.register_forward_hook(lambda *_: seen.append(1))
    told = reply(engine).run.model_fingerprint["decode"]
    hook.remove()
    assert told == "library (its forward is watched)"
    assert len(seen) >= 12


@pytest.fixture
def without(models: OneModel) -> Iterator[Engine]:
    """The same model in an engine that has the fast step switched off."""
    made = Engine(models, Settings(prefill_chunk=16, fast_step=False))
    assert made.load("tiny").finished.wait(60)
    yield made
    made.close()


def reply(engine: Engine, **requested: Any) -> Any:
    asked = {"max_new_tokens": 12, "min_new_tokens": 12, "seed": 1} | requested
    return engine.submit(request_for(requested=asked)).result(60)


def test_a_reply_says_what_decoded_it_and_replay_reports_a_change(engine: Engine, without: Engine) -> None:
    fast, slow = reply(engine, do_sample=True), reply(without, do_sample=True)
    assert fast.run.model_fingerprint["decode"] == "fast step"
    assert slow.run.model_fingerprint["decode"] == "library (the fast step is off)"
    again = engine.submit(replay_of(fast.run)).result(60)
    assert hold_against(fast.run, None, again).identical
    elsewhere = without.submit(replay_of(fast.run)).result(60)
    told = [(d.what, d.then, d.now) for d in hold_against(fast.run, None, elsewhere).differences]
    assert ("decode", "fast step", "library (the fast step is off)") in told


@pytest.mark.parametrize("recorded", ["library (the fast step is off)", None])
def test_what_the_library_decoded_is_replayed_by_the_library(
    engine: Engine, without: Engine, recorded: str | None
) -> None:
    old = reply(without, do_sample=True, max_new_tokens=60).run
    if recorded is None:  # from before there was a fast step
        old = replace(old, model_fingerprint={k: v for k, v in old.model_fingerprint.items() if k != "decode"})
    replay = hold_against(old, None, engine.submit(replay_of(old)).result(60))
    assert replay.identical
    assert "decode" not in {difference.what for difference in replay.differences}


@pytest.mark.parametrize(
    ("requested", "reason"),
    [
        ({"num_beams": 2, "do_sample": False}, "beam search"),
        ({"num_return_sequences": 2, "do_sample": True}, "several replies at once"),
        ({"guidance_scale": 1.5}, "guidance"),
        ({"output_hidden_states": True}, "the model's inside was asked for"),
        ({"cache_implementation": "static"}, "this kind of cache"),
    ],
)
def test_settings_that_need_the_library_get_it(engine: Engine, requested: dict[str, Any], reason: str) -> None:
    assert reply(engine, **requested).run.model_fingerprint["decode"] == f"library ({reason})"
