"""Rows of the parameter table: how the next token is chosen, and the cache that makes choosing quick."""

from __future__ import annotations

from app.parameters import rules
from app.parameters.row import Group, Parameter

ROWS: tuple[Parameter, ...] = (
    Parameter(
        name="do_sample",
        group=Group.STRATEGY,
        kind="bool",
        control="switch",
        off=False,
        library_default=False,
        conflicts_with=("temperature", "num_return_sequences"),
        help="On: each token is drawn by chance from the model's distribution. Off: always the likeliest token (greedy), the "
        "same text for every seed. Setting any sampling parameter switches it on.",
        paper="1904.09751",
    ),
    Parameter(
        name="num_beams",
        group=Group.STRATEGY,
        kind="int",
        control="slider",
        off=1,
        library_default=1,
        minimum=1,
        maximum=16,
        step=1,
        conflicts_with=("num_return_sequences", "prompt_lookup_num_tokens", "guidance_scale", "watermarking_config"),
        streams=False,
        help="Keeps this many partial replies side by side and returns the one with the highest total score. Above 1 the reply "
        "appears only when it is complete, because until then it can still be replaced by another.",
        paper="1702.01806",
    ),
    Parameter(
        name="use_mtp",
        group=Group.STRATEGY,
        kind="bool",
        control="switch",
        off=False,
        applies="the model has multi-token-prediction layers",
        applies_when=rules.first_of(rules.mtp, rules.one_sequence),
        refused=True,
        help="Lets a model that was trained to predict several tokens at once draft with those layers and check the draft in "
        "one step.",
        paper="2404.19737",
    ),
    Parameter(
        name="use_cache",
        group=Group.CACHE,
        kind="bool",
        control="switch",
        off=True,
        library_default=True,
        conflicts_with=("cache_implementation", "prompt_lookup_num_tokens"),
        help="Keeps keys and values of earlier tokens instead of computing them again for every new one. Off gives the same "
        "reply, much more slowly.",
    ),
    Parameter(
        name="cache_implementation",
        group=Group.CACHE,
        kind="choice",
        control="choice",
        choices=(None, "dynamic", "static", "offloaded", "offloaded_static", "quantized"),
        applies="offloaded kinds need a graphics card, quantized an extra package",
        applies_when=rules.cache_possible,
        conflicts_with=("use_cache",),
        refused=True,
        help="How keys and values are stored: growing (dynamic), allocated once (static, can be compiled), moved to main memory "
        "between uses (offloaded), or in few bits (quantized). null leaves it to the model.",
    ),
    Parameter(
        name="cache_config",
        group=Group.CACHE,
        kind="json",
        control="json",
        applies='cache_implementation is "quantized"',
        applies_when=rules.first_of(rules.with_cache, rules.quantized_cache),
        help='Arguments for the quantized cache, such as {"backend": "quanto", "nbits": 4}.',
        paper="2402.02750",
    ),
    Parameter(
        name="max_cache_len",
        group=Group.CACHE,
        kind="int",
        control="number",
        minimum=1,
        limit=lambda facts: facts.context_length,
        limit_name="the model's context",
        applies="a static cache",
        applies_when=rules.first_of(rules.with_cache, rules.static_cache),
        help="Allocates a static cache for this many tokens once, so that later and longer calls reuse it instead of allocating "
        "and compiling again.",
    ),
)
