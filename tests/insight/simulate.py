"""Replies made of random logits, through the library's own warpers and Fader's own draw: the truth that predictions are held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessorList
from transformers.generation import logits_process as library

from app.engine import sampling
from app.engine.exact import exact
from app.engine.trace import Trace
from app.engine.tracer import Tracer
from app.insight.what_if import Setting


def stages(setting: Setting) -> Any:  # noqa: C901  (one line a parameter)
    """The processors and warpers that generate builds for these values, in its order."""
    made = LogitsProcessorList()
    if setting.repetition_penalty != 1.0:
        made.append(library.RepetitionPenaltyLogitsProcessor(setting.repetition_penalty))
    if not setting.do_sample:
        return made
    if setting.temperature != 1.0:
        made.append(library.TemperatureLogitsWarper(setting.temperature))
    if setting.top_h is not None:
        made.append(library.TopHLogitsWarper(setting.top_h))
    if setting.top_k:
        made.append(library.TopKLogitsWarper(setting.top_k))
    if setting.top_p < 1.0:
        made.append(library.TopPLogitsWarper(setting.top_p))
    if setting.min_p:
        made.append(library.MinPLogitsWarper(setting.min_p))
    if setting.typical_p < 1.0:
        made.append(library.TypicalLogitsWarper(setting.typical_p))
    if setting.epsilon_cutoff:
        made.append(library.EpsilonLogitsWarper(setting.epsilon_cutoff))
    if setting.eta_cutoff:
        made.append(library.EtaLogitsWarper(setting.eta_cutoff))
    return exact(made)


@dataclass
class Reply:
    """A simulated reply: the logits of each step, and what was recorded."""

    logits: torch.Tensor
    prompt: list[int]
    trace: Trace

    def choose(self, step: int, setting: Setting) -> int:
        """What another setting really chooses at a step, the reply before it being as recorded."""
        before = [*self.prompt, *self.trace.chosen[:step].tolist()]
        scores = stages(setting)(torch.tensor([before]), self.logits[step : step + 1].clone())[0]
        if not setting.do_sample:
            return int(scores.argmax())
        return sampling.pick(scores, float(self.trace.draws[step]))


def simulate(
    setting: Setting, *, seed: int, steps: int = 12, vocabulary: int = 300, k: int = 20, spread: float = 3.0
) -> Reply:
    """A reply of ``steps`` tokens over random logits rounded to bfloat16, as a 16-bit model gives them (ties included)."""
    chance = torch.Generator().manual_seed(seed)
    logits = (torch.randn(steps, vocabulary, generator=chance) * spread).bfloat16().float()
    prompt = torch.randint(0, vocabulary, (5,), generator=chance).tolist()
    tracer, before = Tracer(k), list(prompt)
    for step in range(steps):
        tracer.begin(logits[step : step + 1].clone())
        scores = logits[step : step + 1].clone()
        for stage in stages(setting):
            scores = stage(torch.tensor([before]), scores)
            tracer.stage(type(stage).__name__, scores)
        draws = [torch.rand((), generator=chance, dtype=torch.float64).item()] if setting.do_sample else []
        token = sampling.pick(scores[0], draws[0]) if draws else int(scores[0].argmax())
        tracer.chosen(scores, [token], draws)
        before.append(token)
    trace = tracer.trace(0, steps)
    assert trace is not None
    return Reply(logits, prompt, trace)
