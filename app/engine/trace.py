"""What each token of a reply was chosen from: recorded step by step by our own decode loop, packed, and read back for good.

Per token: the k most probable tokens with their raw and processed logits and the stage that excluded each, the distribution's
log-sum-exp and entropy, the chosen token with its rank and probabilities before and after processing, how many candidates each stage
left and how much probability it removed, and the random draw. About 200 bytes per token at k = 20.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from app.errors import FaderError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

VERSION = 1
NOT_REMOVED = 255
WARPERS = frozenset(
    f"{name}LogitsWarper" for name in ("Temperature", "TopH", "TopK", "TopP", "MinP", "Typical", "Epsilon", "Eta")
)
"""The stages that shape the distribution for sampling; what stands before the first of them is the "base"."""


@dataclass(frozen=True, eq=False)
class Trace:
    """A trace of n tokens with k candidates and s stages (logits processors, in the order in which they acted).

    ``ids`` int32 [n, k], ``raw`` float32 [n, k]: candidates by falling raw logit. ``processed`` float32 [n, k]: their final
    logits, -inf where excluded. ``removed_by`` uint8 [n, k]: index of the stage that excluded it, 255 if none did.
    ``logsumexp``, ``entropy`` float32 [n]: of the raw distribution, entropy in nats. ``processed_logsumexp`` float32 [n].
    ``chosen`` int32 [n], ``chosen_raw``, ``chosen_processed`` float32 [n] logits, ``rank`` int32 [n] among raw logits from 0.
    ``base`` float32 [n, k]: the candidates' logits before the first warper, [n, 0] when no processor came before it (they are the
    raw ones then); ``base_logsumexp`` float32 [n]; ``tail_max`` float32 [n]: the largest base logit outside the candidates.
    ``left`` int32 [n, s]: candidates after each stage. ``stage_logsumexp`` float32 [n, s]. ``draws`` float64 [n], NaN when greedy.
    """

    stages: tuple[str, ...]
    vocabulary: int
    ids: NDArray[np.int32]
    raw: NDArray[np.float32]
    processed: NDArray[np.float32]
    removed_by: NDArray[np.uint8]
    logsumexp: NDArray[np.float32]
    entropy: NDArray[np.float32]
    processed_logsumexp: NDArray[np.float32]
    chosen: NDArray[np.int32]
    chosen_raw: NDArray[np.float32]
    chosen_processed: NDArray[np.float32]
    rank: NDArray[np.int32]
    base: NDArray[np.float32]
    base_logsumexp: NDArray[np.float32]
    tail_max: NDArray[np.float32]
    left: NDArray[np.int32]
    stage_logsumexp: NDArray[np.float32]
    draws: NDArray[np.float64]

    def __len__(self) -> int:
        """Tokens."""
        return len(self.chosen)

    @property
    def k(self) -> int:
        """Candidates kept per token."""
        return int(self.ids.shape[1])

    @property
    def raw_probability(self) -> NDArray[np.float64]:
        """Probability of each token's choice before any processing, float64 [n]."""
        return np.exp(self.chosen_raw.astype(np.float64) - self.logsumexp)

    @property
    def processed_probability(self) -> NDArray[np.float64]:
        """Probability with which each token was drawn, float64 [n]."""
        return np.exp(self.chosen_processed.astype(np.float64) - self.processed_logsumexp)

    def removed_mass(self, stage: int) -> NDArray[np.float64]:
        """Probability that a stage that only excludes candidates took away, float64 [n], of what was there before it."""
        before = self.logsumexp if stage == 0 else self.stage_logsumexp[:, stage - 1]
        kept = np.exp(self.stage_logsumexp[:, stage].astype(np.float64) - before.astype(np.float64))
        removed: NDArray[np.float64] = np.clip(1.0 - kept, 0.0, 1.0)
        return removed

    def pack(self) -> bytes:
        """Compressed bytes for the store (numpy's npz, nothing pickled)."""
        buffer = io.BytesIO()
        head = {"version": VERSION, "stages": self.stages, "vocabulary": self.vocabulary}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        np.savez_compressed(buffer, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
        return buffer.getvalue()

    @classmethod
    def unpack(cls, data: bytes) -> Trace:
        """Read packed bytes; raises FaderError for a trace of a later version or a damaged one."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                head = json.loads(stored["head"].tobytes())
                arrays = {name: stored[name] for name in _ARRAYS}
        except Exception as error:
            sentence = "The recorded trace of this reply can't be read."
            raise FaderError(sentence) from error
        if head["version"] > VERSION:
            sentence = "The trace of this reply was recorded by a later version of Fader."
            raise FaderError(sentence)
        return cls(tuple(head["stages"]), int(head["vocabulary"]), **arrays)


_DTYPES: dict[str, Any] = {
    "ids": np.int32,
    "raw": np.float32,
    "processed": np.float32,
    "removed_by": np.uint8,
    "logsumexp": np.float32,
    "entropy": np.float32,
    "processed_logsumexp": np.float32,
    "chosen": np.int32,
    "chosen_raw": np.float32,
    "chosen_processed": np.float32,
    "rank": np.int32,
    "base": np.float32,
    "base_logsumexp": np.float32,
    "tail_max": np.float32,
    "left": np.int32,
    "stage_logsumexp": np.float32,
    "draws": np.float64,
}
_ARRAYS = tuple(_DTYPES)
_BEGUN = ("ids", "raw", "logsumexp", "entropy", "removed_by", "base", "base_logsumexp", "tail_max")


@dataclass
class Tracer:
    """An ``Observer`` of the decode loop that records ``count`` sequences with ``k`` candidates each."""

    k: int
    count: int = 1
    _stages: list[str] = field(default_factory=list)
    _vocabulary: int = 0
    _steps: list[dict[str, Any]] = field(default_factory=list)
    _now: dict[str, Any] = field(default_factory=dict)

    def outputs(self, outputs: Any) -> None:
        """Nothing of the model's other outputs is kept."""

    def begin(self, logits: torch.Tensor) -> None:
        """Record the raw distribution. ``logits``: float32 [count, vocabulary]."""
        import torch

        self._vocabulary = logits.shape[-1]
        top = logits.topk(min(self.k, self._vocabulary), dim=-1)
        total = logits.logsumexp(dim=-1)
        probabilities = torch.exp(logits - total[:, None])
        # -inf logits (masked by the model itself) have probability 0 and add nothing to the entropy
        entropy = total - (probabilities * logits.clamp_min(torch.finfo(torch.float32).min)).sum(dim=-1)
        removed = torch.full(top.indices.shape, NOT_REMOVED, dtype=torch.uint8, device=logits.device)
        self._now = {
            "logits": logits,
            "ids": top.indices,
            "raw": top.values,
            "logsumexp": total,
            "entropy": entropy,
            "removed_by": removed,
            "left": [],
            "stage_logsumexp": [],
        }
        self._set_base(logits, total)

    def _set_base(self, scores: torch.Tensor, total: torch.Tensor, candidates: torch.Tensor | None = None) -> None:
        """What the warpers start from: these scores, until another processor changes them."""
        import torch

        now = self._now
        outside = scores.scatter(1, now["ids"], -torch.inf).max(dim=-1).values
        none = torch.zeros((self.count, 0), device=scores.device)
        now |= {"base": none if candidates is None else candidates, "base_logsumexp": total, "tail_max": outside}

    def stage(self, name: str, scores: torch.Tensor) -> None:
        """Record what a processor left. ``scores``: float32 [count, vocabulary]."""
        import torch

        now = self._now
        index = len(now["left"])
        if index == len(self._stages):
            self._stages.append(name)
        candidates, total = scores.gather(1, now["ids"]), scores.logsumexp(dim=-1)
        gone = torch.isneginf(candidates) & (now["removed_by"] == NOT_REMOVED)
        now["removed_by"][gone] = min(index, NOT_REMOVED - 1)
        now["left"].append((scores > -torch.inf).sum(dim=-1))
        now["stage_logsumexp"].append(total)
        if not WARPERS & set(self._stages[: index + 1]):
            self._set_base(scores, total, candidates)

    def chosen(self, scores: torch.Tensor, tokens: list[int], draws: list[float]) -> None:
        """Record the choice, and finish the step."""
        import torch

        now, picked = self._now, torch.tensor(tokens, device=scores.device)[:, None]
        raw = now["logits"].gather(1, picked)
        total = now["stage_logsumexp"][-1] if now["stage_logsumexp"] else now["logsumexp"]
        none = torch.zeros((self.count, 0), device=scores.device)
        self._steps.append(
            {
                **{name: now[name] for name in _BEGUN},
                "processed": scores.gather(1, now["ids"]),
                "processed_logsumexp": total,
                "chosen": picked[:, 0],
                "chosen_raw": raw[:, 0],
                "chosen_processed": scores.gather(1, picked)[:, 0],
                "rank": (now["logits"] > raw).sum(dim=-1),
                "left": torch.stack(now["left"], dim=1) if now["left"] else none,
                "stage_logsumexp": torch.stack(now["stage_logsumexp"], dim=1) if now["left"] else none,
                "draws": torch.tensor(draws or [float("nan")] * self.count, dtype=torch.float64),
            }
        )
        self._now = {}

    def trace(self, index: int, length: int) -> Trace | None:
        """The trace of one sequence, cut to its ``length`` tokens; None when nothing was recorded."""
        if not self._steps or not length:
            return None
        steps = self._steps[:length]
        arrays = {
            name: np.stack([step[name][index].cpu().numpy() for step in steps]).astype(dtype)
            for name, dtype in _DTYPES.items()
        }
        return Trace(tuple(self._stages), self._vocabulary, **arrays)
