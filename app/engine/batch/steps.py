"""How a batch gets from one token of each reply to the next logits of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from app.conversation import FAST
from app.engine.fast.decoding import told
from app.engine.steps import LibrarySteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from app.engine.fast.step import FastStep


class Together(Protocol):
    """The replies of a batch, which have the same number of tokens at every step: no padding is needed.

    ``told``: what a reply's figures call it. ``exact``: each reply gets the very numbers that it would get alone.
    """

    told: ClassVar[str]
    exact: ClassVar[bool]

    def next(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits behind one more token of each reply, float32 [replies, vocabulary]."""

    def keep(self, places: Sequence[int]) -> None:
        """Only the replies at these places go on, in this order; a place named twice becomes two replies."""

    def end(self) -> None:
        """The batch is over."""


@dataclass
class LibraryTogether:
    """The model's own forward with several rows. ``steps`` holds the prompt's keys and values of one row, behind ``ids`` [1, tokens]."""

    told: ClassVar[str] = told("several replies at once")
    exact: ClassVar[bool] = False

    steps: LibrarySteps
    ids: torch.Tensor

    @classmethod
    def behind(cls, model: Any, outputs: Any, kwargs: dict[str, Any], ids: torch.Tensor) -> LibraryTogether:
        """One reply behind its prompt; ``keep`` makes several of it."""
        steps = LibrarySteps(model, model.__call__, kwargs)
        steps.after(outputs)
        return cls(steps, ids)

    def next(self, tokens: Sequence[int]) -> torch.Tensor:
        """One forward for all."""
        import torch

        new = torch.tensor(tokens, device=self.ids.device)[:, None]
        self.ids = torch.cat([self.ids, new], dim=-1)
        outputs = self.steps.next(self.ids)
        self.steps.after(outputs)
        logits: torch.Tensor = outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=self.ids.device)
        return logits

    def keep(self, places: Sequence[int]) -> None:
        """Choose rows of everything that has rows."""
        import torch

        rows, kwargs, count = torch.tensor(places), self.steps.kwargs, self.ids.shape[0]
        self.ids = self.ids[rows.to(self.ids.device)]
        kwargs["cache"].batch_select_indices(rows.to(kwargs["cache"].layers[0].keys.device))
        for name, value in kwargs.items():
            if isinstance(value, torch.Tensor) and value.ndim > 1 and value.shape[0] == count:
                kwargs[name] = value[rows.to(value.device)]

    def end(self) -> None:
        """Nothing is held."""


@dataclass
class FastTogether:
    """The fast step with several replies. ``behind`` takes the prompt's keys and values over from a cache of one row."""

    told: ClassVar[str] = FAST
    exact: ClassVar[bool] = True

    step: FastStep

    @classmethod
    def behind(cls, step: FastStep, cache: Any) -> FastTogether:
        """One reply behind its prompt; ``keep`` makes several of it."""
        step.begin(cache)
        return cls(step)

    def next(self, tokens: Sequence[int]) -> torch.Tensor:
        """One step for all."""
        return self.step.replies.step(tokens)

    def keep(self, places: Sequence[int]) -> None:
        """Choose replies."""
        self.step.replies.keep(places)

    def end(self) -> None:
        """Give keys and values back."""
        self.step.end()
