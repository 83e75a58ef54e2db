"""Drafting: the text stays the same (greedy), forward passes are saved, each control of the draft acts, and Stop works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from app.conversation import FinishReason, RunStatus
from app.engine.engine import Engine
from app.engine.events import TextDelta
from app.errors import NoModel, UnsupportedModel
from app.models.loading import LoadedModel
from app.settings import Settings
from tests.proofs.conftest import GREEDY, OPEN, Forwards, Lab, Shelf, laboratory

Watch = Callable[[LoadedModel], Forwards]
LONG: dict[str, Any] = {**GREEDY, "max_new_tokens": 40, "min_new_tokens": 40}
SURE: dict[str, Any] = {"assistant_confidence_threshold": 0.0}
"""The draft never doubts itself: its length is what was asked."""


@pytest.fixture(scope="module")
def draft_lab(
    precise_llama: LoadedModel, twin: LoadedModel, stranger: LoadedModel, foreigner: LoadedModel, t5: LoadedModel
) -> Iterator[Lab]:
    """A main model in float32, and drafts on the shelf."""
    yield from laboratory(main=precise_llama, twin=twin, stranger=stranger, foreigner=foreigner, t5=t5)


@pytest.fixture
def with_draft(draft_lab: Lab) -> Iterator[Callable[[str], LoadedModel]]:
    """Load a draft for the length of a test."""

    def begin(name: str) -> LoadedModel:
        job = draft_lab.engine.load_draft(name)
        assert job.finished.wait(60)
        assert job.error is None
        shelf: Any = draft_lab.engine.held.models
        loaded: LoadedModel = shelf.models[name]
        return loaded

    yield begin
    assert draft_lab.engine.unload_draft().finished.wait(60)


def test_prompt_lookup_num_tokens(precise: Lab, watch: Watch) -> None:
    """The same greedy text in fewer forward passes."""
    seen = watch(precise.loaded)
    plain = precise.reply(**LONG)
    single = seen.count
    looked_up = precise.reply(**LONG, prompt_lookup_num_tokens=8)
    assert looked_up.ids == plain.ids
    assert seen.count - single < single * 0.7


def test_prompt_lookup_num_tokens__sampled_text_depends_on_the_seed_alone(precise: Lab) -> None:
    asked: dict[str, Any] = {**OPEN, "prompt_lookup_num_tokens": 5, "max_new_tokens": 20}
    texts = [precise.reply(**asked, seed=seed).text for seed in (1, 2, 1)]
    assert texts[0] == texts[2] != texts[1]


def test_prompt_lookup_num_tokens__not_with_beams_and_says_so(precise: Lab) -> None:
    reply = precise.reply(prompt_lookup_num_tokens=5, num_beams=2)
    assert any("prompt_lookup_num_tokens: Ignored: beam search" in note for note in reply.ended.run.notes)


def test_max_matching_ngram_size(precise: Lab, watch: Watch) -> None:
    """How long a stretch is looked for decides what is copied, and so how many passes are needed; never the text."""
    prompt = "a b c. a b d. a b e. x b c. a b"
    seen = watch(precise.loaded)
    texts, passes = [], []
    for size in (1, 2, 5):
        before = seen.count
        texts.append(precise.reply(prompt, **LONG, prompt_lookup_num_tokens=6, max_matching_ngram_size=size).ids)
        passes.append(seen.count - before)
    assert texts[0] == texts[1] == texts[2]
    assert len(set(passes)) > 1


@pytest.mark.parametrize("count", [1, 3, 8])
def test_num_assistant_tokens(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel], watch: Watch, count: int
) -> None:
    """Drafts that many tokens per round, and the text stays the main model's."""
    plain = draft_lab.reply(**LONG)
    with_draft("twin")
    seen = watch(draft_lab.loaded)
    reply = draft_lab.reply(**LONG, **SURE, num_assistant_tokens=count)
    assert reply.ids == plain.ids
    checked = seen.lengths[1:]
    assert max(checked) == count + 1
    assert seen.count < 40


@pytest.mark.parametrize("name", ["twin", "stranger"])
def test_num_assistant_tokens__any_draft_leaves_the_text_alone(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel], name: str
) -> None:
    plain = draft_lab.reply(**LONG)
    with_draft(name)
    reply = draft_lab.reply(**LONG, num_assistant_tokens=4)
    assert reply.ids == plain.ids
    assert reply.ended.run.model_fingerprint["draft"]["name"]


def drafted(seen: Forwards) -> list[int]:
    """The lengths of the drafts, round by round."""
    return [length - 1 for length in seen.lengths[1:]]


def test_num_assistant_tokens_schedule(draft_lab: Lab, with_draft: Callable[[str], LoadedModel], watch: Watch) -> None:
    """Constant keeps the length; heuristic grows by 2 after a wholly accepted draft and keeps what it found for the next reply;
    heuristic_transient grows too and starts afresh."""
    with_draft("twin")
    asked: dict[str, Any] = {**LONG, **SURE, "num_assistant_tokens": 2}
    lengths: dict[str, list[list[int]]] = {}
    for schedule in ("constant", "heuristic_transient", "heuristic"):
        lengths[schedule] = []
        for _ in range(2):
            seen = watch(draft_lab.loaded)
            draft_lab.reply(**asked, num_assistant_tokens_schedule=schedule)
            lengths[schedule].append(drafted(seen))
    assert max(lengths["constant"][0]) == 2
    assert max(lengths["heuristic"][0]) > 2
    assert lengths["heuristic_transient"][0] == lengths["heuristic_transient"][1]
    assert lengths["heuristic"][1][0] > 2


def test_assistant_confidence_threshold(draft_lab: Lab, with_draft: Callable[[str], LoadedModel], watch: Watch) -> None:
    """The surer the draft must be, the shorter its drafts; the text stays."""
    with_draft("stranger")
    mean, texts = [], []
    for threshold in (0.0, 0.99999, 1.0):  # random weights are very sure of themselves
        seen = watch(draft_lab.loaded)
        texts.append(draft_lab.reply(**LONG, num_assistant_tokens=10, assistant_confidence_threshold=threshold).ids)
        lengths = drafted(seen)
        mean.append(sum(lengths) / len(lengths))
    assert texts[0] == texts[1] == texts[2]
    assert mean[0] > mean[1] >= mean[2]


def test_is_assistant(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel], watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """True on the draft while it drafts, false on the main model; setting it by hand is refused."""
    draft = with_draft("twin")
    assert draft_lab.reply(**LONG).ended.run.stats.drafted_by == "twin", "checked by the fast step"
    assert draft.model.generation_config.is_assistant is True
    watch(draft_lab.loaded)  # a forward that is watched is the library's
    seen: dict[str, set[bool]] = {"draft": set(), "main": set()}
    for who, loaded in (("draft", draft), ("main", draft_lab.loaded)):
        model: Any = loaded.model
        stock = model._prepare_special_tokens

        def noting(config: Any, *args: Any, of: str = who, then: Any = stock, **kwargs: Any) -> Any:
            seen[of].add(bool(config.is_assistant))
            return then(config, *args, **kwargs)

        monkeypatch.setattr(model, "_prepare_special_tokens", noting)
    reply = draft_lab.reply(**LONG)
    assert seen == {"draft": {True}, "main": {False}}
    assert reply.effective["is_assistant"] is False
    assert draft_lab.ask(is_assistant=True).error.startswith("is_assistant: ")


@pytest.mark.parametrize("sampling", [GREEDY, OPEN], ids=["greedy", "sampled"])
def test_assistant_ensemble_weight(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel], watch: Watch, sampling: dict[str, Any]
) -> None:
    """With a mixture more of a strange draft is accepted, so fewer passes are needed; without sampling it says it is not in use."""
    with_draft("stranger")
    passes = {}
    asked: dict[str, Any] = {**sampling, **SURE, "max_new_tokens": 40, "min_new_tokens": 40, "num_assistant_tokens": 5}
    for weight in (None, 0.05):
        seen = watch(draft_lab.loaded)
        reply = draft_lab.reply(**asked, assistant_ensemble_weight=weight)
        passes[weight] = seen.count
    if sampling is OPEN:
        assert passes[0.05] < passes[None]
    else:
        assert passes[0.05] == passes[None]
        assert any("assistant_ensemble_weight: Ignored: greedy" in note for note in reply.ended.run.notes)


def test_assistant_ensemble_weight__not_with_prompt_lookup(precise: Lab) -> None:
    reply = precise.reply(**OPEN, prompt_lookup_num_tokens=4, assistant_ensemble_weight=0.5)
    assert any("assistant_ensemble_weight: Ignored: no draft model" in note for note in reply.ended.run.notes)


@pytest.mark.parametrize("layers", [1])
def test_assistant_early_exit(precise: Lab, watch: Watch, layers: int) -> None:
    """The same greedy text, drafted with the lower layers; the model has all its layers again afterwards."""
    plain = precise.reply(**LONG)
    seen = watch(precise.loaded)
    reply = precise.reply(**LONG, assistant_early_exit=layers)
    assert reply.ids == plain.ids
    assert max(seen.lengths[1:]) > 1, "several tokens are checked at once"
    assert precise.loaded.model.config.num_hidden_layers == 2
    assert precise.reply(**LONG).ids == plain.ids


def test_assistant_early_exit__refused_where_the_model_can_not(t5_lab: Lab) -> None:
    reply = t5_lab.ask(assistant_early_exit=1)
    assert reply.error.startswith("assistant_early_exit: this model was not trained")


def test_speculation_type(draft_lab: Lab, with_draft: Callable[[str], LoadedModel]) -> None:
    reason = "speculation_type: it needs a model with a matching DFlash draft model loaded beside it"
    assert draft_lab.ask(speculation_type="dflash").error == reason
    with_draft("twin")
    assert draft_lab.ask(speculation_type="dflash").error == reason


LOOKBEHINDS = ("assistant_lookbehind", "target_lookbehind")


def lookbehind(lab: Lab, watch: Watch, name: str) -> None:
    plain = lab.reply("one two three four", **LONG)
    seen = []
    for size in (1, 10, 64):
        forwards = watch(lab.loaded)
        reply = lab.reply("one two three four", **LONG, **{name: size}, num_assistant_tokens=6)
        assert reply.ids == plain.ids
        assert reply.explained[name]["active"]
        seen.append(tuple(drafted(forwards)))
    assert len(set(seen)) > 1, "another look behind, other drafts"


def test_assistant_lookbehind(draft_lab: Lab, with_draft: Callable[[str], LoadedModel], watch: Watch) -> None:
    """With a draft of another tokenizer: the text stays, the drafts differ with how far is looked back."""
    with_draft("foreigner")
    lookbehind(draft_lab, watch, "assistant_lookbehind")


def test_target_lookbehind(draft_lab: Lab, with_draft: Callable[[str], LoadedModel], watch: Watch) -> None:
    with_draft("foreigner")
    lookbehind(draft_lab, watch, "target_lookbehind")


@pytest.mark.parametrize("name", LOOKBEHINDS)
def test_lookbehind__with_the_same_tokenizer_it_says_why_not(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel], name: str
) -> None:
    with_draft("twin")
    asked: dict[str, Any] = {name: 4}
    reply = draft_lab.reply(**asked)
    assert any(f"{name}: Ignored: the draft model has the same tokenizer" in note for note in reply.ended.run.notes)


def test_foreign_draft__settings_that_name_tokens_do_not_confuse_it(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel]
) -> None:
    asked: dict[str, Any] = {
        **LONG,
        "sequence_bias": [[[390], 3.0]],
        "suppress_tokens": [399],
        "bad_words_ids": [[391]],
        "exponential_decay_length_penalty": [50, 1.1],
    }
    plain = draft_lab.reply(**asked)
    with_draft("foreigner")
    assert draft_lab.reply(**asked).ids == plain.ids


def test_foreign_draft__sampling_leaves_both_models_as_they_were(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel]
) -> None:
    draft = with_draft("foreigner")
    head = draft.model.get_output_embeddings()
    texts = [draft_lab.reply(**OPEN, seed=seed, max_new_tokens=20).text for seed in (1, 2, 1)]
    assert texts[0] == texts[2] != texts[1]
    assert draft.model.get_output_embeddings() is head
    plain = draft_lab.reply(**LONG)
    draft_lab.engine.unload_draft().finished.wait(60)
    assert plain.ids == draft_lab.reply(**LONG).ids


@pytest.mark.parametrize("name", ["twin", "foreigner"])
def test_draft__stop_ends_it_and_keeps_the_text(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel], name: str
) -> None:
    with_draft(name)
    live = draft_lab.start(**GREEDY, max_new_tokens=450, min_new_tokens=450)
    for _, event in live.events():
        if isinstance(event, TextDelta):
            break
    live.cancel()
    ended = live.result(60)
    assert ended.run.status is RunStatus.STOPPED
    assert ended.run.finish_reason is FinishReason.STOPPED
    assert ended.text
    assert len(ended.run.output_ids) < 450


def test_draft__streams(draft_lab: Lab, with_draft: Callable[[str], LoadedModel]) -> None:
    with_draft("stranger")
    reply = draft_lab.reply(**LONG)
    pieces = [event.text for _, event in reply.live.read() if isinstance(event, TextDelta)]
    assert "".join(pieces) == reply.text
    assert len(pieces) > 5


def test_draft__shown_in_the_facts_and_gone_with_its_model(draft_lab: Lab) -> None:
    engine = draft_lab.engine

    def facts() -> tuple[str | None, bool]:
        known = engine.status().facts
        assert known
        return known.draft_model, known.draft_shares_tokenizer

    engine.load_draft("foreigner").finished.wait(60)
    assert facts() == ("foreigner", False)
    engine.load_draft("twin").finished.wait(60)
    assert facts() == ("twin", True)
    engine.load("main").finished.wait(60)
    assert facts() == (None, True)
    assert not any("draft" in note for note in draft_lab.reply().ended.run.notes)


def test_draft__beams_and_several_replies_go_without_it_and_say_so(
    draft_lab: Lab, with_draft: Callable[[str], LoadedModel]
) -> None:
    with_draft("twin")
    for more in ({"num_beams": 2}, {**OPEN, "num_return_sequences": 2}, {"use_cache": False}):
        reply = draft_lab.reply(**more, num_assistant_tokens=3)
        assert any(note.startswith("num_assistant_tokens: Ignored") for note in reply.ended.run.notes)
        assert "draft" not in reply.ended.run.model_fingerprint


def test_draft__of_another_kind_of_model_is_refused(draft_lab: Lab) -> None:
    job = draft_lab.engine.load_draft("t5")
    job.finished.wait(60)
    assert isinstance(job.error, UnsupportedModel)
    assert draft_lab.engine.status().state == "ready"
    assert draft_lab.reply().status is RunStatus.DONE


def test_draft__comes_back_with_its_model_after_a_pause(precise_llama: LoadedModel, twin: LoadedModel) -> None:
    shelf, freed = Shelf(main=precise_llama, twin=twin), Event()
    shelf.unload = lambda loaded: freed.set() if loaded is precise_llama else None  # type: ignore[method-assign]
    engine = Engine(shelf, Settings(idle_unload_minutes=0.02))
    engine.load("main")
    engine.load_draft("twin")
    assert freed.wait(60)
    reply = Lab(engine, precise_llama).reply(**LONG)
    engine.close()
    assert reply.ended.run.model_fingerprint["draft"]["name"]


def test_draft__without_a_model_is_refused(twin: LoadedModel) -> None:
    engine = Engine(Shelf(twin=twin), Settings())
    job = engine.load_draft("twin")
    job.finished.wait(60)
    engine.close()
    assert isinstance(job.error, NoModel)
