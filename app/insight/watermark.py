"""Finds a watermark in a text: how far its tokens deviate from chance under the settings it would have been written with.

Both kinds need the exact settings, the same tokenizer and, because the random green lists come from the device, the same kind of
device. No trained detector is involved: under chance both statistics have a known mean and spread, so a z-score says it all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.conversation import Json

THRESHOLD = 4.0
"""z-score from which a text counts as marked: by chance one text in 30,000 reaches it."""


@dataclass(frozen=True, slots=True)
class Detection:
    """``tokens`` were scored; ``share`` of the evidence is green (greenlist) or one (SynthID), where chance gives ``expected``."""

    kind: str
    tokens: int
    share: float
    expected: float
    z_score: float

    @property
    def p_value(self) -> float:
        """How often chance alone reaches this score."""
        return 0.5 * erfc(self.z_score / sqrt(2))

    @property
    def marked(self) -> bool:
        """Whether that is hardly chance."""
        return self.z_score >= THRESHOLD


def detect(
    ids: Sequence[int], config: Mapping[str, Json], vocab_size: int, *, context: Sequence[int] = (), device: str = "cpu"
) -> Detection:
    """Score a text's token ids against a ``watermarking_config`` as the parameter table holds it.

    ``context``: the tokens in front of the text (the prompt), on which its first tokens' marks depend. Repeated stretches count once:
    they carry the same mark again and would make a plain text that repeats itself look marked. A text too short to be scored gives
    0 tokens and a z-score of 0.
    """
    fields = {name: value for name, value in config.items() if name != "kind"}
    score = _synthid if config["kind"] == "synthid" else _greenlist
    width = fields["ngram_len"] - 1 if config["kind"] == "synthid" else fields["context_width"]
    return score([*list(context)[-width:], *ids], fields, vocab_size, device)


def _greenlist(ids: list[int], fields: dict[str, Json], vocab_size: int, device: str) -> Detection:
    """Share of tokens on the green list their predecessors choose; binomial under chance (arXiv 2306.04634, equation 3)."""
    import torch
    from transformers import WatermarkDetector

    ratio = int(vocab_size * fields["greenlist_ratio"]) / vocab_size
    if len(ids) <= fields["context_width"]:
        return Detection("greenlist", 0, 0.0, ratio, 0.0)
    model: Any = SimpleNamespace(is_encoder_decoder=False, bos_token_id=-1, vocab_size=vocab_size)
    detector: Any = WatermarkDetector(model, device, dict(fields), ignore_repeated_ngrams=True)
    found = detector(torch.tensor([ids], device=device), return_dict=True)
    tokens, green = int(found.num_tokens_scored[0]), int(found.num_green_tokens[0])
    z_score = (green - ratio * tokens) / sqrt(tokens * ratio * (1 - ratio))
    return Detection("greenlist", tokens, green / tokens, ratio, z_score)


def _synthid(ids: list[int], fields: dict[str, Json], _vocab_size: int, device: str) -> Detection:
    """Weighted mean of the g-values, each a fair coin under chance; earlier tournament layers leave more evidence and weigh more."""
    import torch
    from transformers import SynthIDTextWatermarkLogitsProcessor

    if len(ids) < fields["ngram_len"]:
        return Detection("synthid", 0, 0.0, 0.5, 0.0)
    processor: Any = SynthIDTextWatermarkLogitsProcessor(**fields, device=torch.device(device))
    row = torch.tensor([ids], device=device)
    fresh = processor.compute_context_repetition_mask(row)[0].bool()
    values = processor.compute_g_values(row)[0][fresh].double()
    if not len(values):
        return Detection("synthid", 0, 0.0, 0.5, 0.0)
    weights = torch.linspace(10, 1, values.shape[1], dtype=torch.float64, device=device)
    share = float((values * weights).sum() / (weights.sum() * len(values)))
    spread = 0.5 * sqrt(float((weights**2).sum()) * len(values)) / (float(weights.sum()) * len(values))
    return Detection("synthid", len(values), share, 0.5, (share - 0.5) / spread)
