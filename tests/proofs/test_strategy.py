"""How tokens are chosen and how keys and values are kept: what changes the reply does, what must not change it doesn't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.conversation import FinishReason, RunStatus
from app.engine.events import Progress, TextDelta
from app.models.loading import LoadedModel
from app.parameters.rules import QUANTIZED_CACHE_PACKAGES, _installed
from tests.proofs.conftest import GREEDY, OPEN, UNSET, Forwards, Lab

Watch = Callable[[LoadedModel], Forwards]
QUANTIZED = any(map(_installed, QUANTIZED_CACHE_PACKAGES))


def test_do_sample(lab: Lab) -> None:
    greedy = [lab.reply(do_sample=False, seed=seed).text for seed in (1, 2, 3)]
    drawn = [lab.reply(**OPEN, seed=seed).text for seed in (1, 2, 3)]
    assert len(set(greedy)) == 1
    assert len(set(drawn)) == 3


def test_do_sample__off_leaves_sampling_parameters_aside_and_says_so(lab: Lab) -> None:
    reply = lab.reply(do_sample=False, temperature=2.0, top_k=3)
    assert reply.ids == lab.reply(**GREEDY).ids
    for name in ("temperature", "top_k"):
        assert not reply.explained[name]["active"]
        assert any(note.startswith(f"{name}: Ignored") for note in reply.ended.run.notes)


@pytest.mark.parametrize("beams", [2, 4])
def test_num_beams(lab: Lab, beams: int) -> None:
    """A candidate of higher total log-probability than the greedy one, of the same length."""
    held = {"max_new_tokens": 14, "min_new_tokens": 14, "length_penalty": 0.0}
    better = 0
    for question in ("hello there", "what is the time?", "one two three", "Paris"):
        greedy = lab.reply(question, **GREEDY, **held)
        searched = lab.reply(question, **GREEDY, **held, num_beams=beams)
        mine, theirs = (lab.log_probability(r.prompt, r.ids) for r in (searched, greedy))
        assert mine > theirs - 0.5
        better += mine > theirs + 0.01
    assert better >= 2


def test_num_beams__shows_progress_and_the_text_at_the_end(lab: Lab) -> None:
    reply = lab.reply(num_beams=3, max_new_tokens=10, min_new_tokens=10)
    events = [event for _, event in reply.live.read()]
    steps = [event.done for event in events if isinstance(event, Progress) and event.what == "tokens"]
    assert steps == list(range(1, 11))
    first_text = next(i for i, event in enumerate(events) if isinstance(event, TextDelta))
    last_step = max(i for i, event in enumerate(events) if isinstance(event, Progress) and event.what == "tokens")
    assert first_text > last_step
    assert any("Streaming is off" in note for note in reply.ended.run.notes)


def test_use_mtp(lab: Lab) -> None:
    reply = lab.ask(use_mtp=True)
    assert reply.status is RunStatus.FAILED
    assert reply.error == "use_mtp: this model has no multi-token-prediction layers"


@pytest.mark.parametrize("beams", [1, 2])
def test_use_cache(precise: Lab, watch: Watch, beams: int) -> None:
    asked: dict[str, Any] = {**GREEDY, "num_beams": beams, "max_new_tokens": 10}
    cached = precise.reply(**asked)
    seen = watch(precise.loaded)
    plain = precise.reply(**asked, use_cache=False)
    assert plain.text == cached.text
    assert seen.lengths[-1] >= len(plain.prompt) + 8, "everything is computed again"
    assert not plain.inside.cache


KINDS = {None: "DynamicCache", "dynamic": "DynamicCache", "static": "StaticCache"}


@pytest.mark.parametrize("kind", KINDS)
def test_cache_implementation(precise: Lab, watch: Watch, kind: str | None) -> None:
    expected = precise.reply(**GREEDY).text
    seen = watch(precise.loaded)
    reply = precise.reply(**GREEDY, cache_implementation=kind)
    assert {type(cache).__name__ for cache in seen.caches} == {KINDS[kind]} == {reply.inside.cache}
    assert reply.text == expected


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("offloaded", "graphics card"),
        ("offloaded_static", "graphics card"),
        ("quantized", "neither is installed"),
    ],
)
def test_cache_implementation__impossible_kinds_are_refused_with_the_reason(lab: Lab, kind: str, reason: str) -> None:
    if lab.loaded.facts.device != "cpu" or (kind == "quantized" and QUANTIZED):
        pytest.skip("possible here")
    reply = lab.ask(cache_implementation=kind)
    assert reply.status is RunStatus.FAILED
    assert reply.error.startswith("cache_implementation: ")
    assert reason in reply.error


def test_cache_config(lab: Lab) -> None:
    """Without a quantized cache it has nothing to configure, and says so."""
    reply = lab.reply(cache_config={"backend": "quanto", "nbits": 4})
    assert not reply.explained["cache_config"]["active"]
    assert any(note.startswith("cache_config: Ignored") for note in reply.ended.run.notes)


@pytest.mark.skipif(QUANTIZED, reason="a package for it is installed")
def test_cache_config__with_a_quantized_cache_needs_a_package(lab: Lab) -> None:
    asked = lab.ask(cache_config={"backend": "quanto", "nbits": 4}, cache_implementation="quantized")
    assert asked.error.startswith("cache_implementation: ")


def test_max_cache_len(precise: Lab, watch: Watch) -> None:
    """One allocation serves calls of different lengths, and each gives what it gives alone."""
    expected = [
        precise.reply(q, **GREEDY, max_new_tokens=n).text for q, n in (("hello", 5), ("and now for a longer one", 30))
    ]
    seen = watch(precise.loaded)
    asked: dict[str, Any] = {**GREEDY, "cache_implementation": "static", "max_cache_len": 200}
    texts = [
        precise.reply(q, **asked, max_new_tokens=n).text for q, n in (("hello", 5), ("and now for a longer one", 30))
    ]
    assert texts == expected
    assert len({id(cache) for cache in seen.caches}) == 1
    assert {cache.layers[0].keys.shape[2] for cache in seen.caches} == {200}
    assert len({cache.layers[0].keys.data_ptr() for cache in seen.caches}) == 1


def test_max_cache_len__another_size_is_another_cache(lab: Lab, watch: Watch) -> None:
    seen = watch(lab.loaded)
    for size in (120, 260):
        lab.reply(**GREEDY, cache_implementation="static", max_cache_len=size)
    assert {cache.layers[0].keys.shape[2] for cache in seen.caches} >= {260}
    assert len({id(cache) for cache in seen.caches}) == 2


@pytest.mark.parametrize("beams", [{"num_beams": 3}, {"num_beams": 3, **OPEN, "num_return_sequences": 2}])
def test_num_beams__stop_ends_the_search(lab: Lab, beams: dict[str, Any]) -> None:
    live = lab.start(**beams, max_new_tokens=400, min_new_tokens=400)
    for _, event in live.events():
        if isinstance(event, Progress) and event.what == "tokens":
            break
    live.cancel()
    ended = live.result(60)
    assert ended.run.finish_reason is FinishReason.STOPPED
    assert len(ended.run.output_ids) < 400


def test_num_beams__stop_reaches_a_long_prompt(lab: Lab) -> None:
    live = lab.start("word " * 90, num_beams=4, max_new_tokens=UNSET)
    progress = (event for _, event in live.events() if isinstance(event, Progress) and event.what == "prompt")
    next(progress)
    live.cancel()
    ended = live.result(60)
    assert ended.run.status is RunStatus.STOPPED
    read = [event for _, event in live.read() if isinstance(event, Progress) and event.what == "prompt"]
    assert read[0].total > 90
    assert not ended.run.output_ids or len(ended.run.output_ids) < 5


@pytest.mark.skipif(not QUANTIZED, reason="needs optimum-quanto or hqq")
@pytest.mark.parametrize("bits", [2, 4])
def test_cache_config__reaches_the_cache(lab: Lab, watch: Watch, bits: int) -> None:
    backend = "quanto" if _installed("optimum.quanto") else "hqq"
    seen = watch(lab.loaded)
    reply = lab.reply(cache_implementation="quantized", cache_config={"backend": backend, "nbits": bits})
    assert reply.inside.cache == "QuantizedCache"
    assert {layer.nbits for layer in seen.caches[0].layers} == {bits}
