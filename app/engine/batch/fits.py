"""Which replies can be computed side by side in one batch: says in a few words what stands against one, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import BadParameter
from app.parameters.fitting import OUTPUTS
from app.parameters.resolve import resolve
from app.parameters.rules import with_draft

if TYPE_CHECKING:
    from app.engine.run import RunRequest
    from app.models.facts import ModelFacts
    from app.parameters.row import Values


def why_not(values: Values, facts: ModelFacts, *, exact: bool = False) -> str | None:
    """What keeps a reply with these effective ``values`` out of a batch; None when nothing does.

    ``exact``: this model's batch gives each reply the very numbers that it would get alone.
    """
    inside = [name for name in OUTPUTS if values[name]]
    reasons = {
        "the model is on another machine": facts.remote is not None,
        "this model has an encoder, whose replies are written one at a time": facts.is_encoder_decoder,
        "beam search already follows several sequences (num_beams)": values["num_beams"] > 1,
        "it is several replies itself (num_return_sequences)": values["num_return_sequences"] > 1,
        "a draft model writes ahead for one reply at a time": with_draft(values, facts) is None,
        "it drafts for one reply at a time (prompt_lookup_num_tokens)": bool(values["prompt_lookup_num_tokens"]),
        "it drafts for one reply at a time (assistant_early_exit)": values["assistant_early_exit"] is not None,
        "it drafts for one reply at a time (use_mtp)": bool(values["use_mtp"]),
        "guidance reads a second text beside each reply (guidance_scale)": values["guidance_scale"] != 1.0,
        "there is no key/value cache to share (use_cache is off)": not values["use_cache"],
        "only the ordinary, growing cache holds several replies (cache_implementation)": values["cache_implementation"]
        not in (None, "dynamic"),
        "its time is limited, and side by side a reply takes longer (max_time)": values["max_time"] is not None,
        f"the model's inside is kept of one reply at a time ({', '.join(inside)})": bool(inside),
        "with experts a reply's numbers would depend on its neighbours'": bool(facts.num_experts) and not exact,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def against(request: RunRequest, facts: ModelFacts, *, exact: bool) -> str | None:
    """What keeps a run out of a batch on this model, in words; None when nothing does. ``exact``: see ``Decoding.exact_together``."""
    try:
        values = resolve(request.requested, facts, sources=request.sources).values
    except BadParameter as error:
        return str(error)  # its own end will say so
    return why_not(values, facts, exact=exact)
