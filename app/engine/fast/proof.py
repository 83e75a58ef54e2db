"""The fast step has to prove itself beside the stock forward before it answers anybody; where it can't, the library decodes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from app.engine.fast.decoding import Decoding
from app.engine.fast.fits import why_not
from app.engine.fast.step import FastStep
from app.engine.fast.tempo import Tempo
from app.engine.speculation.costs import SHARING
from app.engine.speculation.reader import DraftReader

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from app.engine.fast.replies import Replies
    from app.models.loading import LoadedModel

log = logging.getLogger(__name__)
POSITIONS = 32
AGREEMENT = 0.98
DIVERGENCE = 0.02
"""Mean Kullback–Leibler divergence in nats. Two orders of the same sums in bfloat16 are about 0.002 apart, in float32 10^-6."""
_PROMPT = 16
TRIES = 4
"""Steps for each number of threads."""
ROUNDS = 3
"""Steps for each number of rows."""
_TIE = 2**-7
"""Relative distance of two logits that bfloat16 hardly tells apart (it has 8 bits): either may be called the best."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Over the positions compared: share with the same best token, and mean divergence of the distributions in nats."""

    greedy: float
    divergence: float

    @property
    def enough(self) -> bool:
        """Whether the two are the same model for a reader."""
        return self.greedy >= AGREEMENT and self.divergence <= DIVERGENCE


def decoding_for(loaded: LoadedModel, *, wanted: bool = True) -> Decoding:
    """The fast step for a loaded model if it serves it and agrees with it. Never raises: the library can always decode.

    Also finds the number of threads it is quickest with, which changes no bit of what it computes.
    """
    if not wanted:
        return Decoding()
    model, kernels = loaded.model, loaded.kernels
    try:
        if kernels is None:
            return Decoding(reason=loaded.without_kernels or "not on this device")
        if (reason := why_not(model)) is not None:
            return Decoding(reason=reason)
        step = FastStep(model, kernels)
        found = compare(model, step)
        exact = exact_together(step, int(model.config.vocab_size))
        step.replies.tempo = Tempo(kernels.threads, quickest(step, kernels.threads))
        try_rows(step)
    except Exception:
        log.exception("The fast step failed its trial; the library decodes")
        return Decoding(reason="the fast step failed its trial")
    log.info("Fast step: %.1f %% agreement, divergence %.4f", found.greedy * 100, found.divergence)
    return Decoding(step, None, exact) if found.enough else Decoding(reason=f"only {found.greedy:.0%} agreement")


def exact_together(step: FastStep, size: int) -> bool:
    """Whether several replies in one step give the bits of each alone: four share the reading of a weight, the fifth has it to itself."""
    import torch

    tokens = [token % size for token in (1, 7, 20, 33, 50)]
    together = _steps(step, tokens)
    return all(torch.equal(_steps(step, [tokens[place]])[0], together[place]) for place in (0, 4))


def _steps(step: FastStep, tokens: list[int]) -> torch.Tensor:
    """Logits of two steps from nothing with the same tokens, float32 [replies, 2, vocabulary]."""
    import torch
    from transformers import DynamicCache

    step.begin(DynamicCache())
    step.replies.keep([0] * len(tokens))
    try:
        return torch.stack([step.replies.step(tokens) for _ in range(2)], dim=1)
    finally:
        step.end()


def quickest(step: FastStep, most: int) -> int:
    """How many threads need least time for a token just now: all the cores, half of them, or one."""
    times = dict[int, float]()
    for threads in sorted({most, max(1, most // 2), 1}, reverse=True):
        step.replies.tempo = Tempo(threads, threads)
        times[threads] = _time(step)
    log.info("Fast step: %s", ", ".join(f"{n} threads {seconds * 1e3:.1f} ms" for n, seconds in times.items()))
    return min(times, key=lambda threads: times[threads])


def _time(step: FastStep) -> float:
    """The shortest of a few steps, in seconds."""
    from transformers import DynamicCache

    step.begin(DynamicCache())
    try:
        return min(_seconds(step, token) for token in range(TRIES))
    finally:
        step.end()


def try_rows(step: FastStep) -> None:
    """Find out what it costs to check several tokens at once."""
    from transformers import DynamicCache

    step.begin(DynamicCache())
    try:
        rounds = [{rows: _following(step.replies, rows) for rows in (1, 2, SHARING)} for _ in range(ROUNDS)]
    finally:
        step.end()
    step.replies.costs.learn(rounds)


def _following(replies: Replies, rows: int) -> float:
    replies.length, begun = 0, perf_counter()
    replies.follow([1] * rows)
    return perf_counter() - begun


def reader_for(draft: LoadedModel, main: FastStep | None) -> DraftReader | None:
    """The fast step of a draft whose guesses ``main`` can check, with what a token takes it in steps of that; None without one of both."""
    step = decoding_for(draft).step if main else None
    if main is None or step is None:
        return None
    share = median(_time(step) / _time(main) for _ in range(ROUNDS))
    return DraftReader(draft.model, step, main.replies.costs, share)


def _seconds(step: FastStep, token: int) -> float:
    begun = perf_counter()
    step(token)
    return perf_counter() - begun


def compare(model: PreTrainedModel, step: FastStep, positions: int = POSITIONS) -> Agreement:
    """The step's own greedy continuation of a fixed beginning, token by token, against one stock forward over all of it."""
    import torch

    whole: Any = model
    prompt = torch.arange(1, _PROMPT + 1)[None] * 37 % int(model.config.vocab_size)
    with torch.no_grad():
        logits, cache = _read(whole, prompt)
        tokens, fast = _continuation(step, cache, int(logits.argmax()), positions)
        ids = torch.cat([prompt, torch.tensor([tokens])], dim=1)
        stock = whole(ids, logits_to_keep=positions).logits[0, -positions:].float()
    return _agreement(stock, fast)


def _continuation(step: FastStep, cache: Any, first: int, positions: int) -> tuple[list[int], torch.Tensor]:
    """So many tokens from ``first`` on, and the step's logits behind each, float32 [positions, vocabulary]."""
    import torch

    tokens, rows = [first], []
    step.begin(cache)
    try:
        for _ in range(positions):
            rows.append(step(tokens[-1])[0, -1].float())
            tokens.append(int(rows[-1].argmax()))
    finally:
        step.end()
    return tokens[:positions], torch.stack(rows)


def _read(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """Logits of the last position, float32 [vocabulary], and the cache after ``ids``."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    return model(ids, cache=cache).logits[0, -1].float(), cache


def _agreement(stock: torch.Tensor, fast: torch.Tensor) -> Agreement:
    """Of logits [positions, vocabulary]; a token whose stock logit ties with the best is as good as the best."""
    import torch

    best = stock.max(dim=-1).values
    chosen = stock.gather(1, fast.argmax(dim=-1, keepdim=True))[:, 0]
    greedy = (best - chosen <= best.abs() * _TIE).float().mean()
    kl = torch.nn.functional.kl_div(fast.log_softmax(-1), stock.log_softmax(-1), log_target=True, reduction="none")
    return Agreement(float(greedy), float(kl.sum(-1).mean()))
