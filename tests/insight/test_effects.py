"""The report on constructed cases: a top_p that never binds, a min_p that removes the runner-up, a penalty that flips a choice."""

from __future__ import annotations

import torch

from app.conversation import FinishReason, Run, RunStatus, Stats
from app.engine.tracer import Tracer
from app.insight.effects import Effect, effects
from app.insight.what_if import Setting
from tests.insight.simulate import stages

VOCABULARY = 40


def report(
    setting: Setting, steps: list[dict[int, float]], draws: list[float], prompt: tuple[int, ...] = ()
) -> dict[str, Effect]:
    """Effects of a reply whose logits are -20 but for the named tokens."""
    from app.engine import sampling

    tracer, before = Tracer(8), list(prompt)
    for named, draw in zip(steps, draws, strict=True):
        logits = torch.full((1, VOCABULARY), -20.0)
        for token, value in named.items():
            logits[0, token] = value
        tracer.begin(logits)
        scores = logits.clone()
        for stage in stages(setting):
            scores = stage(torch.tensor([before or [0]]), scores)
            tracer.stage(type(stage).__name__, scores)
        token = sampling.pick(scores[0], draw)
        tracer.chosen(scores, [token], [draw])
        before.append(token)
    trace = tracer.trace(0, len(steps))
    assert trace is not None
    output = tuple(before[len(prompt) :])
    run = Run(
        "r",
        "m",
        RunStatus.DONE,
        FinishReason.EOS,
        effective={name: getattr(setting, name) for name in Setting.__slots__},
        prompt_ids=prompt,
        output_ids=output,
        stats=Stats(new_tokens=len(output)),
    )
    return {effect.name: effect for effect in effects(run, trace)}


def test_a_top_p_that_never_binds_never_mattered() -> None:
    told = report(Setting(top_p=0.99), [{3: 10.0}, {4: 10.0}], [0.2, 0.7])["top_p"]
    assert told.mattered is False
    assert told.would_differ == ()
    assert "Never mattered" in told.sentence


def test_a_min_p_that_removes_the_runner_up_changes_what_the_draw_falls_on() -> None:
    # 70 % and 30 %; the draw at 0.9 falls on the runner-up unless min_p 0.5 removes it
    told = report(Setting(min_p=0.5), [{3: 1.0, 4: 0.153}], [0.9])["min_p"]
    assert told.would_differ == (0,)
    assert told.mattered is True
    assert told.acted == 1
    assert told.max_removed is not None
    assert abs(told.max_removed - 0.3) < 0.01
    assert "the first at token 1" in told.sentence


def test_a_repetition_penalty_that_flips_a_choice_is_found_at_its_token() -> None:
    # token 3 was in the prompt: its logit 2.0 falls to 1.0 and token 4 with 1.5 takes the draw
    told = report(Setting(repetition_penalty=2.0, top_k=1), [{5: 3.0}, {3: 2.0, 4: 1.5}], [0.5, 0.5], prompt=(3,))
    assert told["repetition_penalty"].would_differ == (1,)
    assert told["repetition_penalty"].mattered is True
    assert told["top_k"].acted == 2


def test_what_ended_the_reply_is_named() -> None:
    from dataclasses import replace

    setting = Setting()
    tracer = Tracer(4)
    logits = torch.zeros((1, VOCABULARY))
    tracer.begin(logits)
    tracer.chosen(logits, [1], [0.5])
    trace = tracer.trace(0, 1)
    assert trace is not None
    run = Run("r", "m", RunStatus.DONE, FinishReason.LENGTH, effective={"max_new_tokens": 1}, output_ids=(1,))
    told = effects(replace(run, stats=Stats(new_tokens=1)), trace)
    assert [(effect.name, effect.mattered) for effect in told] == [("max_new_tokens", True)]
    assert setting.do_sample
