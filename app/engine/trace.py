"""What each token of a reply was chosen from: recorded step by step by our own decode loop (``tracer``), packed, and read back for good.

Per token: the k most probable tokens with their raw and processed logits and the stage that excluded each, the distribution's
log-sum-exp and entropy, the chosen token with its rank and probabilities before and after processing, how many candidates each stage
left and how much probability it removed, and the random draw. About 200 bytes per token at k = 20.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from app.errors import FaderError

if TYPE_CHECKING:
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
    ``texts``: the bytes of each id, for tokens that no tokenizer here knows (``app.remote.tokens``); else empty.
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
    texts: tuple[bytes, ...] = ()

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
        head: dict[str, Any] = {"version": VERSION, "stages": self.stages, "vocabulary": self.vocabulary}
        if self.texts:
            head["texts"] = [text.decode("latin-1") for text in self.texts]
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
        texts = tuple(text.encode("latin-1") for text in head.get("texts", ()))
        return cls(tuple(head["stages"]), int(head["vocabulary"]), **arrays, texts=texts)


DTYPES: dict[str, Any] = {
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
_ARRAYS = tuple(DTYPES)
