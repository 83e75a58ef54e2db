"""A reply's tokens, predictions and replays as the compact JSON that assets/insight.js draws.

Probabilities travel as whole parts per million and entropies as whole thousandths of a nat: short numbers, and no page shows more digits.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from app.conversation import Json
from app.engine.desk import Desk
from app.engine.text import REPLACEMENT
from app.engine.trace import Trace
from app.insight.effects import Effect
from app.insight.perplexity import Perplexity
from app.insight.recorded import Recorded
from app.insight.replay import Candidate, Replay
from app.insight.stages import PARAMETER_OF, RESHAPES
from app.insight.watermark import Detection
from app.insight.what_if import Prediction, Setting
from app.remote.pieces import RecordedPieces

SHOWN = 20
"""Alternatives sent per token; what-if computes with all that are stored."""


def tokens_view(recorded: Recorded, desk: Desk) -> Json:
    """A reply's tokens. ``from``: the first traced one; figures and alternatives (flat, ``k`` a token) count from there."""
    run = recorded.run
    view = _whole_view(recorded, desk.facts.eos_token_ids)
    return {**view, **text_view(run.output_ids, recorded.trace, desk, run.prompt_ids)}


def server_tokens_view(recorded: Recorded) -> Json:
    """The same for a reply from a server (``server`` is its host), as far as that told its tokens."""
    trace = recorded.trace
    ids = () if trace is None else tuple(trace.chosen.tolist())
    pieces = RecordedPieces(() if trace is None else trace.texts)
    host = recorded.run.model_fingerprint.get("remote")
    return {**_whole_view(recorded, ()), **text_view(ids, trace, pieces), "server": host, "note": recorded.elsewhere}


def _whole_view(recorded: Recorded, ends: tuple[int, ...]) -> dict[str, Json]:
    """What is told of a reply as a whole."""
    run, trace = recorded.run, recorded.trace
    return {
        "run": run.id,
        "seed": run.seed,
        "ends": [*ends],
        "effective": {name: run.effective.get(name) for name in Setting.__slots__},
        "watermark": run.effective.get("watermarking_config"),
        "reason": None if trace else recorded.missing,
    }


def text_view(
    ids: tuple[int, ...], trace: Trace | None, desk: Desk | RecordedPieces, before: tuple[int, ...] = ()
) -> Json:
    """Ids with each one's share of the text, and what a trace knows about the last of them."""
    known = set(ids) if trace is None else {*ids, *trace.ids[:, :SHOWN].flatten().tolist()}
    pieces = desk.pieces(sorted(known))
    return {
        "ids": list(ids),
        "texts": list(desk.texts(ids, before[-16:])),
        "special": [piece.id for piece in pieces if piece.special],
        "pieces": {piece.id: piece.text for piece in pieces},
        "from": len(ids) - (0 if trace is None else len(trace)),
        **(_figures(trace) if trace is not None else {"k": 0, "stages": []}),
    }


def _figures(trace: Trace) -> dict[str, Json]:
    k = min(SHOWN, trace.k)
    names = [PARAMETER_OF.get(stage, stage) for stage in trace.stages]
    chances = np.exp(trace.raw[:, :k].astype(np.float64) - trace.logsumexp[:, None])
    processed = np.exp(trace.processed[:, :k].astype(np.float64) - trace.processed_logsumexp[:, None])
    return {
        "k": k,
        "vocabulary": trace.vocabulary,
        "greedy": bool(np.isnan(trace.draws).all()),
        "stages": [{"name": name, "reshapes": name in RESHAPES} for name in names],
        "raw": _millionths(trace.raw_probability),
        "processed": _millionths(trace.processed_probability),
        "entropy": np.rint(np.nan_to_num(trace.entropy) * 1000).astype(int).tolist(),
        "rank": trace.rank.tolist(),
        "draws": [None if np.isnan(draw) else round(draw, 6) for draw in trace.draws.tolist()],
        "left": trace.left.flatten().tolist(),
        "alternatives": {
            "ids": trace.ids[:, :k].flatten().tolist(),
            "raw": _millionths(chances),
            "processed": _millionths(processed),
            "removed_by": trace.removed_by[:, :k].flatten().tolist(),
        },
    }


def _millionths(chances: Any) -> list[int]:
    numbers: list[int] = np.rint(np.nan_to_num(chances) * 1_000_000).astype(int).flatten().tolist()
    return numbers


def readable(desk: Desk, ids: list[int]) -> Json:
    """``[id, text, special]`` of each token; a character of several tokens stands at its last one, the others are empty."""
    both = zip(desk.pieces(ids), desk.texts(ids), strict=True)
    return [[p.id, text if REPLACEMENT in p.text else p.text, p.special] for p, text in both]


def prediction_view(prediction: Prediction, setting: Setting, trace: Trace, desk: Desk | None) -> Json:
    """``kept``: a bit per shown alternative, base64; ``choice``: the token taken instead, -1 unknown; both from the first traced
    token, as are ``first_change`` and ``exact_until``."""
    kept = prediction.kept[:, : min(SHOWN, trace.k)]
    named = sorted(set(prediction.choice[prediction.choice >= 0].tolist()))
    return {
        "kept": base64.b64encode(np.packbits(kept).tobytes()).decode(),
        "choice": prediction.choice.tolist(),
        "first_change": prediction.first_change,
        "exact_until": prediction.exact_until,
        "reason": prediction.reason,
        "pieces": {piece.id: piece.text for piece in desk.pieces(named)} if desk else {},
        "setting": {name: getattr(setting, name) for name in Setting.__slots__},
    }


def effects_view(effects: Iterable[Effect]) -> Json:
    """The report, a line a parameter."""
    return [
        {
            "name": effect.name,
            "value": effect.value,
            "acted": effect.acted,
            "tokens": effect.tokens,
            "mean_removed": effect.mean_removed,
            "max_removed": effect.max_removed,
            "would_differ": list(effect.would_differ),
            "mattered": effect.mattered,
            "sentence": effect.sentence,
        }
        for effect in effects
    ]


def replay_view(replay: Replay, desk: Desk | None) -> Json:
    """A replay's outcome with the candidates' texts."""
    return {**replay.as_json(), "then": _candidates(replay.then, desk), "now": _candidates(replay.now, desk)}


def _candidates(candidates: tuple[Candidate, ...], desk: Desk | None) -> Json:
    texts = [piece.text for piece in desk.pieces([c.id for c in candidates])] if desk else [""] * len(candidates)
    return [{"id": c.id, "text": text, "probability": c.probability} for c, text in zip(candidates, texts, strict=True)]


def perplexity_view(figures: Perplexity, ids: tuple[int, ...], trace: Trace, desk: Desk) -> Json:
    """Figures of a text, and its tokens as those of a reply."""
    numbers = {name: getattr(figures, name) for name in Perplexity.__slots__}
    return {"figures": numbers, "view": text_view(ids, trace, desk)}


def detection_view(found: Detection) -> Json:
    """What a watermark detector found, with a sentence."""
    numbers = {"kind": found.kind, "tokens": found.tokens, "share": found.share, "expected": found.expected}
    return {
        **numbers,
        "z_score": found.z_score,
        "p_value": found.p_value,
        "marked": found.marked,
        "sentence": _verdict(found),
    }


def _verdict(found: Detection) -> str:
    if not found.tokens:
        return "The text is too short to tell."
    evidence = f"{found.share:.1%} of the evidence where chance gives {found.expected:.1%} (z = {found.z_score:.1f})"
    if found.marked:
        return f"Watermarked with these settings: {evidence}."
    return f"No sign of a watermark with these settings: {evidence}."
