"""Rows of the parameter table: Fader's own, which are no fields of GenerationConfig."""

from __future__ import annotations

from app.parameters import rules
from app.parameters.row import Group, Parameter

CONTEXT_POLICIES = ("stop", "drop_oldest", "keep_first", "drop_middle")

ROWS: tuple[Parameter, ...] = (
    Parameter(
        name="seed",
        group=Group.OWN,
        kind="int",
        control="number",
        minimum=0,
        maximum=2**32 - 1,
        neutral=False,
        null_is_unset=True,
        help="Starts the random numbers of this reply: the same seed, model and settings give the same text, whatever else "
        "runs. null draws a seed and records it.",
    ),
    Parameter(
        name="negative_prompt",
        group=Group.OWN,
        kind="text",
        control="text",
        off="",
        applies="guidance_scale above 1",
        applies_when=rules.with_guidance,
        help="What the reply is pushed away from. Left empty, guidance pushes away from the reply without its prompt.",
        paper="2306.17806",
    ),
    Parameter(
        name="output_format",
        group=Group.OWN,
        kind="format",
        control="form",
        help="Makes the reply obey a JSON schema, a regular expression or a list of choices: tokens that would break the form "
        "can't be chosen.",
        paper="2307.09702",
    ),
    Parameter(
        name="trace_top_k",
        group=Group.OWN,
        kind="int",
        control="slider",
        off=0,
        fader_default=20,
        minimum=0,
        maximum=100,
        step=1,
        neutral=False,
        help="How many likeliest alternatives are kept for each token of the reply, for the token view. 0 keeps none.",
    ),
    Parameter(
        name="context_policy",
        group=Group.OWN,
        kind="choice",
        control="choice",
        off="stop",
        fader_default="drop_oldest",
        choices=CONTEXT_POLICIES,
        neutral=False,
        help="What happens when the conversation no longer fits: stop and say so, drop the oldest turns, keep the system "
        "prompt and first turns, or drop the middle. What was left out is marked in the chat.",
    ),
)
