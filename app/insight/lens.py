"""The logit lens: what each layer would have said already, read off its hidden state by the model's own last norm and head.

nostalgebraist, "interpreting GPT: the logit lens" (2020). Early layers don't speak the head's language yet, so their words mean little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.score import Question
from app.errors import RefusedInput

if TYPE_CHECKING:
    import torch

    from app.models.loading import LoadedModel

_NORMS = ("norm", "final_layernorm", "ln_f", "final_layer_norm")
"""Names of the norm before the head in the library's models."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A token with its probability."""

    id: int
    probability: float


@dataclass(eq=False)
class Lens(Question):
    """The guesses of every layer at one token. ``hidden``: [layers + 1, width], the embeddings first, as the run kept them."""

    hidden: torch.Tensor | None = None
    count: int = 5
    layers: list[tuple[Guess, ...]] = field(default_factory=list)

    def answer(self, loaded: LoadedModel, _chunk: int) -> None:
        """Read all layers at once. Raises RefusedInput for a model whose last norm or head isn't found."""
        import torch

        model: Any = loaded.model
        norm, head = _norm(model), model.get_output_embeddings()
        assert self.hidden is not None  # noqa: S101  (a lens is made with one)
        if norm is None or head is None:
            raise RefusedInput("This model's last norm and head weren't found, so its layers can't be read.")
        with torch.inference_mode():
            hidden = self.hidden.to(model.device)
            states = torch.cat(
                [norm(hidden[:-1]).to(hidden.device), hidden[-1:]]
            )  # the library gives the last one normed
            top = head(states).float().softmax(dim=-1).topk(self.count, dim=-1)
        pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        self.layers = [tuple(Guess(i, p) for i, p in zip(ids, chances, strict=True)) for ids, chances in pairs]


def _norm(model: Any) -> Any:
    base = getattr(model, model.base_model_prefix, None)
    base = getattr(base, "decoder", base)
    return next((getattr(base, name) for name in _NORMS if hasattr(base, name)), None)
