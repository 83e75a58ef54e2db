"""What a run has kept of the model's inside, where an output_… parameter asked for it: in memory, of the first sequence, bounded.

Per token of the reply: raw logits, scores after every parameter, hidden states of all layers, attention weights. Whatever loop made
them, they end up here in the same shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from transformers import GenerationConfig

LIMIT = 512 * 2**20
"""Bytes kept of one run; what comes later is left out and ``complete`` becomes False."""


@dataclass
class Inside:
    """Lists with one entry per token of the reply, empty where nobody asked.

    ``logits``, ``scores``: float32 [vocabulary]. ``hidden_states``: [layers + 1, width], the embeddings first, in the model's dtype, at
    the position that chose the token. ``attentions``: [layers, heads, tokens seen]. ``cross_attentions``: the same over the input of an
    encoder–decoder model. ``cache``: the class that held keys and values; ``compiled``: whether the compiled forward pass ran.
    """

    limit: int = LIMIT
    logits: list[torch.Tensor] = field(default_factory=list)
    scores: list[torch.Tensor] = field(default_factory=list)
    hidden_states: list[torch.Tensor] = field(default_factory=list)
    attentions: list[torch.Tensor] = field(default_factory=list)
    cross_attentions: list[torch.Tensor] = field(default_factory=list)
    cache: str = ""
    compiled: bool = False
    complete: bool = True
    _bytes: int = 0

    def step(self, config: GenerationConfig, outputs: Any, logits: torch.Tensor, scores: torch.Tensor) -> None:
        """One step of our own loop. ``outputs`` is the model's; ``logits`` and ``scores`` are float32 [batch, vocabulary]."""
        if config.output_logits:
            self._keep(self.logits, logits[0])
        if config.output_scores:
            self._keep(self.scores, scores[0])
        if config.output_hidden_states:
            self._layers(self.hidden_states, _of(outputs, "hidden_states"), lambda layer: layer[0, -1])
        if config.output_attentions:
            self._layers(self.attentions, _of(outputs, "attentions"), lambda layer: layer[0, :, -1])
            self._layers(
                self.cross_attentions, getattr(outputs, "cross_attentions", None), lambda layer: layer[0, :, -1]
            )

    def take(self, result: Any) -> None:
        """The output object of one of the library's loops; of several beams, the one that became the first reply."""
        rows = list(_rows(result))
        for row, logits in _each(rows, getattr(result, "logits", None)):
            self._keep(self.logits, logits[row])
        for row, scores in _each(rows, getattr(result, "scores", None)):
            self._keep(self.scores, scores[row])
        for row, layers in _each(rows, _of(result, "hidden_states")):
            self._layers(self.hidden_states, layers, lambda layer, r=row: layer[r, -1])
        for row, layers in _each(rows, _of(result, "attentions")):
            self._layers(self.attentions, layers, lambda layer, r=row: layer[r, :, -1])
        for row, layers in _each(rows, getattr(result, "cross_attentions", None)):
            self._layers(self.cross_attentions, layers, lambda layer, r=row: layer[r, :, -1])

    @property
    def empty(self) -> bool:
        """Whether nothing has been kept."""
        return not self._bytes

    def clear(self) -> None:
        """Let go of everything."""
        for kept in (self.logits, self.scores, self.hidden_states, self.attentions, self.cross_attentions):
            kept.clear()
        self._bytes, self.complete = 0, False

    def _layers(self, kept: list[torch.Tensor], layers: Any, cut: Any) -> None:
        import torch

        if layers and layers[0] is not None:
            self._keep(kept, torch.stack([cut(layer) for layer in layers]))

    def _keep(self, kept: list[torch.Tensor], tensor: torch.Tensor) -> None:
        if self._bytes + tensor.nbytes > self.limit:
            self.complete = False
            return
        self._bytes += tensor.nbytes
        kept.append(tensor.detach().to("cpu", copy=True))


def _of(outputs: Any, name: str) -> Any:
    """The decoder's part, whichever kind of model it is."""
    return getattr(outputs, name, None) or getattr(outputs, f"decoder_{name}", None)


def _rows(result: Any) -> Iterator[int]:
    """For each token of the first reply, the row of the batch it was computed in."""
    indices = getattr(result, "beam_indices", None)
    if indices is None:
        yield from (0 for _ in range(result.sequences.shape[1]))
    else:
        yield from (index for index in indices[0].tolist() if index >= 0)


def _each(rows: list[int], steps: Any) -> Iterator[tuple[int, Any]]:
    return zip(rows, steps, strict=False) if steps else iter(())
