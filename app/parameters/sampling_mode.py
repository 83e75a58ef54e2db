"""Greedy or by chance: what decides do_sample, and what that means for the sampling parameters."""

from __future__ import annotations

from app.parameters.resolution import Draft
from app.parameters.table import BY_NAME, SAMPLING


def decide_sampling(draft: Draft) -> None:
    """Settle do_sample: an explicit switch, else temperature 0, else any sampling parameter that somebody set."""
    if draft.requested("do_sample"):
        _switched(draft)
    elif draft.values["temperature"] == 0:
        draft.imply(
            "do_sample", value=False, reason="Greedy, implied by temperature 0: the likeliest token every time."
        )
    elif asking := [name for name in SAMPLING if draft.requested(name)]:
        if not draft.values["do_sample"]:
            draft.imply("do_sample", value=True, reason=f"Switched on, implied by {' and '.join(asking)}.")
    elif draft.wishes["do_sample"].source == "library":
        _as_the_model_hints(draft)


def _switched(draft: Draft) -> None:
    if draft.values["do_sample"] and draft.values["temperature"] == 0:
        draft.conflict(
            "do_sample",
            value=False,
            reason="Conflicts with temperature 0, which means greedy: only the likeliest token is left.",
        )


def _as_the_model_hints(draft: Draft) -> None:
    """A model that recommends a temperature or the like, but not do_sample, means to be sampled."""
    hints = [n for n in SAMPLING if draft.wishes[n].source == "model" and draft.values[n] != BY_NAME[n].off]
    if hints:
        draft.imply("do_sample", value=True, reason=f"Switched on, implied by the model's {' and '.join(hints)}.")
