"""Rows of the parameter table: what pushes or forbids particular tokens before one is chosen."""

from __future__ import annotations

from app.parameters import rules
from app.parameters.row import Group, Parameter

ROWS: tuple[Parameter, ...] = (
    Parameter(
        name="repetition_penalty",
        group=Group.LOGITS,
        kind="float",
        control="slider",
        off=1.0,
        library_default=1.0,
        minimum=0.5,
        maximum=2,
        step=0.01,
        help="Makes tokens that already occur, in prompt or reply, less likely (above 1) or likelier (below 1). 1.05 to 1.2 "
        "breaks loops; more harms grammar.",
        paper="1909.05858",
    ),
    Parameter(
        name="encoder_repetition_penalty",
        group=Group.LOGITS,
        kind="float",
        control="slider",
        off=1.0,
        library_default=1.0,
        minimum=0.5,
        maximum=2,
        step=0.01,
        help="Above 1 favours tokens that stand in the prompt, below 1 avoids them. Keeps summaries close to their source.",
    ),
    Parameter(
        name="length_penalty",
        group=Group.LOGITS,
        kind="float",
        control="slider",
        off=1.0,
        library_default=1.0,
        minimum=-5,
        maximum=5,
        step=0.1,
        applies="num_beams above 1",
        applies_when=rules.with_beams,
        streams=False,
        help="Beam scores are divided by length to this power: above 0 long replies gain, below 0 short ones. It ranks "
        "finished beams and doesn't lengthen a single reply.",
        paper="1609.08144",
    ),
    Parameter(
        name="no_repeat_ngram_size",
        group=Group.LOGITS,
        kind="int",
        control="slider",
        off=0,
        library_default=0,
        minimum=0,
        maximum=20,
        step=1,
        help="No run of this many tokens may occur twice, prompt included. Small values forbid even names and phrases that must "
        "recur; 0 is off.",
        paper="1705.04304",
    ),
    Parameter(
        name="bad_words_ids",
        group=Group.LOGITS,
        kind="phrases",
        control="texts",
        off=[],
        help="Words or phrases that may not be written. Each text is blocked with and without a leading space, as it is usually "
        "tokenized; lists of token ids are taken as they are.",
    ),
    Parameter(
        name="renormalize_logits",
        group=Group.LOGITS,
        kind="bool",
        control="switch",
        off=False,
        help="Makes the scores log-probabilities again after all other settings have changed them. Matters for comparing beams "
        "and for reading scores, not for a plain draw.",
    ),
    Parameter(
        name="forced_bos_token_id",
        group=Group.LOGITS,
        kind="token",
        control="token",
        conflicts_with=("suppress_tokens",),
        help="The token the reply must start with; multilingual encoder–decoder models take the target language this way.",
        paper="2001.08210",
    ),
    Parameter(
        name="forced_eos_token_id",
        group=Group.LOGITS,
        kind="tokens",
        control="tokens",
        off=[],
        conflicts_with=("suppress_tokens",),
        help="The token that must come last when the length limit is reached, so that a cut reply still ends properly.",
    ),
    Parameter(
        name="remove_invalid_values",
        group=Group.LOGITS,
        kind="bool",
        control="switch",
        off=False,
        library_default=False,
        help="Replaces NaN and infinite logits so that a damaged step doesn't end the reply with an error. Slower; it hides the "
        "damage rather than repairing it.",
    ),
    Parameter(
        name="exponential_decay_length_penalty",
        group=Group.LOGITS,
        kind="pair",
        control="pair",
        applies="there is an end token",
        applies_when=rules.ends_by_token,
        help="[start, factor]: after start tokens the end token's score grows by factor to the power of the tokens since. Brings "
        "a reply to a close instead of cutting it.",
    ),
    Parameter(
        name="suppress_tokens",
        group=Group.LOGITS,
        kind="tokens",
        control="tokens",
        off=[],
        conflicts_with=("forced_bos_token_id", "forced_eos_token_id"),
        help="Tokens that are never chosen. A text must be a single token; for whole words use bad_words_ids.",
    ),
    Parameter(
        name="begin_suppress_tokens",
        group=Group.LOGITS,
        kind="tokens",
        control="tokens",
        off=[],
        help="Tokens that can't be the first of the reply.",
    ),
    Parameter(
        name="sequence_bias",
        group=Group.LOGITS,
        kind="rows",
        control="rows",
        off=[],
        help="Adds a bias to a word or phrase: positive makes it likelier, negative rarer. For a phrase the bias acts on its "
        "last token once the others are there; 2 is noticeable, 10 nearly forces.",
    ),
    Parameter(
        name="token_healing",
        group=Group.LOGITS,
        kind="bool",
        control="switch",
        off=False,
        applies="the tokenizer can list tokens by their beginning",
        applies_when=rules.token_healing,
        help="Takes back the last token of the text to be continued and lets the model choose any token that starts the same, "
        'so that "http:" goes on as "http://" instead of around the token border.',
    ),
    Parameter(
        name="guidance_scale",
        group=Group.LOGITS,
        kind="float",
        control="slider",
        off=1.0,
        minimum=1,
        maximum=10,
        step=0.1,
        applies="num_beams is 1 and the model only decodes",
        applies_when=rules.guidance,
        conflicts_with=("num_beams", "prompt_lookup_num_tokens"),
        help="Runs a second sequence with the negative prompt and pushes the reply away from it, the more the higher. Costs "
        "twice the work; 1.5 is a start, high values harm the language.",
        paper="2306.17806",
    ),
    Parameter(
        name="watermarking_config",
        group=Group.LOGITS,
        kind="watermark",
        control="form",
        help="Marks the reply statistically so that a detector with the same settings recognizes it: a random green share of "
        "the vocabulary is favoured (greenlist), or draws follow secret keys (synthid).",
        paper="2306.04634",
    ),
)
