"""What-if never lies: wherever it names a token, that token is what a real rerun chooses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.insight.cutoffs import UNKNOWN
from app.insight.what_if import Setting, predict
from tests.insight.simulate import simulate

SETTINGS = st.builds(
    Setting,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 1.3, 2.0]),
    top_h=st.sampled_from([None, None, None, 0.3, 0.7]),
    top_k=st.sampled_from([0, 0, 1, 5, 20, 50]),
    top_p=st.sampled_from([1.0, 1.0, 0.95, 0.8, 0.3]),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 0.3]),
    typical_p=st.sampled_from([1.0, 1.0, 1.0, 0.9, 0.5]),
    epsilon_cutoff=st.sampled_from([0.0, 0.0, 0.001, 0.02]),
    eta_cutoff=st.sampled_from([0.0, 0.0, 0.001, 0.02]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.2, 2.0, 0.8]),
)


@settings(max_examples=150)
@given(old=SETTINGS, new=SETTINGS, seed=st.integers(0, 10_000), spread=st.sampled_from([1.0, 3.0, 6.0]))
def test_every_named_token_is_the_one_a_rerun_chooses(old: Setting, new: Setting, seed: int, spread: float) -> None:
    reply = simulate(old, seed=seed, spread=spread)
    prediction = predict(reply.trace, old, new, reply.prompt)
    for step, predicted in enumerate(prediction.choice.tolist()):
        if predicted != UNKNOWN:
            assert predicted == reply.choose(step, new)
    if prediction.first_change is not None:
        step = prediction.first_change
        assert reply.choose(step, new) != reply.trace.chosen[step]
        assert all(reply.choose(i, new) == reply.trace.chosen[i] for i in range(step))
    else:
        assert all(reply.choose(i, new) == reply.trace.chosen[i] for i in range(prediction.exact_until))


@settings(max_examples=50)
@given(new=SETTINGS, seed=st.integers(0, 10_000))
def test_candidates_shown_as_removed_really_are(new: Setting, seed: int) -> None:
    import torch

    from tests.insight.simulate import stages

    old = Setting()
    reply = simulate(old, seed=seed)
    prediction = predict(reply.trace, old, new, reply.prompt)
    if prediction.reason and not prediction.kept.any():
        return
    for step in range(len(reply.trace)):
        before = [*reply.prompt, *reply.trace.chosen[:step].tolist()]
        scores = stages(new)(torch.tensor([before]), reply.logits[step : step + 1].clone())[0]
        removed = [token for token, kept in zip(reply.trace.ids[step], prediction.kept[step], strict=True) if not kept]
        if prediction.choice[step] != UNKNOWN:
            assert all(torch.isneginf(scores[token]) for token in removed)


@pytest.mark.parametrize(
    "change",
    [{"temperature": 0.5}, {"top_k": 10}, {"top_p": 0.5}, {"min_p": 0.2}, {"temperature": 0}, {"epsilon_cutoff": 0.01}],
)
def test_the_usual_sliders_are_answered_for_most_tokens(change: dict[str, float]) -> None:
    old = Setting(temperature=0.7)
    reply = simulate(old, seed=1, steps=200, spread=5.0)
    prediction = predict(reply.trace, old, old.moved(change), reply.prompt)
    assert (prediction.choice != UNKNOWN).mean() > 0.85


def test_the_same_setting_predicts_the_reply_itself() -> None:
    old = Setting(temperature=0.7, top_p=0.9)
    reply = simulate(old, seed=2, steps=100, spread=5.0)
    prediction = predict(reply.trace, old, old, reply.prompt)
    assert prediction.first_change is None
    assert (prediction.same | (prediction.choice == UNKNOWN)).all()


def test_a_greedy_reply_has_no_draws_to_use_again() -> None:
    greedy = Setting(do_sample=False)
    reply = simulate(greedy, seed=3)
    prediction = predict(reply.trace, greedy, Setting(temperature=0.7), reply.prompt)
    assert "no random draws" in prediction.reason
    assert prediction.exact_until == 0
