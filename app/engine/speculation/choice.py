"""Who guesses in a reply: the draft, prompt lookup, or nobody; then prompt lookup's plan is kept dry, to tell what it would have saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.speculation.lookup import Lookup
from app.engine.speculation.plan import MOST, Plan

if TYPE_CHECKING:
    from transformers import GenerationConfig

    from app.engine.fast.decoding import Decoding
    from app.engine.fast.step import FastStep
    from app.engine.speculation.draft import DraftGuesser
    from app.engine.speculation.reader import DraftReader

NGRAM = 2
"""Stretch that prompt lookup looks for where nothing else is set (transformers' default)."""
OFFERED = 7
"""Guesses of the dry plan."""


def only_the_library(config: GenerationConfig, draft: DraftGuesser | None) -> bool:
    """Whether drafting as set here needs the library's loop: other ways to draft, or a mixture of both models' distributions."""
    others = config.assistant_early_exit is not None or getattr(config, "use_mtp", False)
    mixed = config.do_sample and getattr(config, "assistant_ensemble_weight", None) is not None
    dflash = getattr(config, "speculation_type", None) is not None
    return bool(others or mixed or dflash or not (draft or config.prompt_lookup_num_tokens))


def plan_for(config: GenerationConfig, step: FastStep, decoding: Decoding, draft: DraftGuesser | None) -> Plan:
    """The plan of one reply."""
    costs, asked = step.replies.costs, int(config.prompt_lookup_num_tokens or 0)
    if draft and not asked:
        grows = draft.schedule != "constant"
        return Plan(draft, costs, draft.chances, draft.most, grows=grows)
    guesser = Lookup(int(config.max_matching_ngram_size or NGRAM))
    return Plan(guesser, costs, decoding.chances, asked or OFFERED, dry=not asked)


def outlook(main: FastStep | None, draft: DraftReader | None) -> str:
    """What a draft can gain, going by what the steps of both models cost here, in a sentence."""
    if main is None or draft is None:
        return "The library’s own loop works with it: what that gains is measured with each reply, and where it loses it rests."
    costs = main.replies.costs
    one, each = costs.pace, draft.share * costs.pace
    measured = f"On this machine a token takes the draft {each * 1e3:.1f} ms and the model {one * 1e3:.1f} ms:"
    enough = next((percent for percent in range(5, 101, 5) if costs.best(percent / 100, MOST, each)), None)
    if enough is None:
        return f"{measured} too much for it to gain anything, so it will rest."
    return f"{measured} it gains where at least {enough} % of its guesses are right, and rests where they are not."
