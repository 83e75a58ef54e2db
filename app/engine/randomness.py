"""Random numbers of a run's own for the library's loops, which draw from torch's global generator that all threads share.

Inside ``OwnRandomness`` every draw of this thread, and of no other, comes from generators started with the run's seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from app.engine.sampling import NOTHING_LEFT
from app.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DRAWS: frozenset[Any] = frozenset(
    {torch.multinomial, torch.Tensor.multinomial, torch.rand, torch.rand_like, torch.bernoulli, torch.Tensor.bernoulli}
)
"""The functions that beam sampling and speculative decoding draw with."""


class OwnRandomness(TorchFunctionMode):
    """A context in which this thread's draws depend on ``seed`` alone."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Give a drawing function the run's generator unless it brings one."""
        given = dict(kwargs or {})
        if func in DRAWS and given.get("generator") is None:
            given["generator"] = self._generator(_device(args, given))
        return _sample_beams(*args, **given) if func is torch.multinomial else func(*args, **given)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]


def _sample_beams(probabilities: torch.Tensor, num_samples: int, **more: Any) -> torch.Tensor:
    """torch.multinomial, but where fewer candidates are possible than beams want, impossible ones fill up.

    Raises RunFailed when nothing is possible.
    """
    if torch.isnan(probabilities).any():
        raise RunFailed(f"At some token {NOTHING_LEFT}")
    possible = int((probabilities > 0).sum(dim=-1).min())
    if possible >= num_samples:
        return torch.multinomial(probabilities, num_samples, **more)
    drawn = torch.multinomial(probabilities, possible, **more)
    rest = torch.topk((probabilities == 0).to(probabilities.dtype), num_samples - possible, dim=-1).indices
    return torch.cat([drawn, rest], dim=-1)


def _device(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.device:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return value.device
    return torch.device(kwargs.get("device") or "cpu")
