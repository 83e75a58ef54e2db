"""What a loaded model really takes: bytes by dtype, how much of it is 4-bit, and the memory its loading needed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import torch
    from torch import nn

_SAMPLE_SECONDS = 0.02
_FUSED = 3
_GRID_SCALES = ("scales", "offsets")
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The truth after a load.

    ``resident_bytes``: weights, scales and buffers; ``bytes_by_dtype`` splits them. ``share_4bit``: of all parameters;
    ``linear_share_4bit``: of the weights of linear layers and experts, the output layer left out. ``peak_bytes``: most private
    memory that the load took at any time beyond what the process had (on a GPU: the most that was allocated there).
    """

    resident_bytes: int
    bytes_by_dtype: dict[str, int]
    share_4bit: float
    linear_share_4bit: float
    peak_bytes: int
    seconds: float
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Weights:
    """Counts over a model; ``plain`` names the modules whose weights could be 4-bit and are not."""

    bytes_by_dtype: Counter[str] = field(default_factory=Counter)
    parameters: int = 0
    parameters_4bit: int = 0
    linear: int = 0
    linear_4bit: int = 0
    plain: list[str] = field(default_factory=list)


def weigh(model: nn.Module) -> Weights:
    """Count every tensor once, tied ones too; shapes of 4-bit weights are those before packing."""
    weights = Weights()
    seen: set[int] = set()
    for name, tensor in _tensors(model):
        if tensor.data_ptr() in seen and tensor.numel():
            continue
        seen.add(tensor.data_ptr())
        weights.bytes_by_dtype[str(tensor.dtype).removeprefix("torch.")] += tensor.numel() * tensor.element_size()
        for extra in _scales(tensor):
            weights.bytes_by_dtype[str(extra.dtype).removeprefix("torch.")] += extra.numel() * extra.element_size()
        _count(weights, model, name, tensor)
    return weights


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        part: Any = getattr(tensor, "to_local", None)  # this process's part, where a model is spread over several
        yield name, part() if part else tensor


def _scales(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors of a bitsandbytes quant_state: absmax, code, and the second level when nested."""
    state: Any = getattr(tensor, "quant_state", None)
    while state is not None:
        yield from (part for part in (state.absmax, state.code, getattr(state, "offset", None)) if part is not None)
        state = getattr(state, "state2", None)


def _count(weights: Weights, model: nn.Module, name: str, tensor: torch.Tensor) -> None:
    owner_name, _, leaf = name.rpartition(".")
    owner = model.get_submodule(owner_name)
    if leaf in owner._buffers or leaf.endswith("_absmax") or leaf in _GRID_SCALES:  # noqa: SLF001  (no public way to ask)
        return
    packed = is_four_bit(owner, tensor)
    logical = _logical(tensor) if packed else tensor.numel()
    weights.parameters += logical
    weights.parameters_4bit += logical if packed else 0
    if _is_linear(model, owner, leaf, tensor):
        weights.linear += logical
        weights.linear_4bit += logical if packed else 0
        if not packed and owner_name not in weights.plain:
            weights.plain.append(owner_name)


def _is_linear(model: nn.Module, owner: nn.Module, leaf: str, tensor: torch.Tensor) -> bool:
    """A linear layer's weight or a layer's fused experts (3-D), but not the output layer."""
    from torch.nn import Linear

    from app.models.grid import GridLinear

    output = getattr(model, "get_output_embeddings", lambda: None)()
    linear = (isinstance(owner, Linear) and leaf == "weight") or (isinstance(owner, GridLinear) and leaf == "codes")
    return owner is not output and (linear or tensor.ndim == _FUSED)


def _logical(tensor: torch.Tensor) -> int:
    """Number of weights in a packed tensor."""
    state: Any = getattr(tensor, "quant_state", None)
    return prod(state.shape) if state is not None else 2 * tensor.numel()


def is_four_bit(owner: nn.Module, tensor: torch.Tensor) -> bool:
    """Whether a parameter holds packed 4-bit weights: of a bitsandbytes layer or of 4-bit experts."""
    from app.models.experts import FourBitExperts
    from app.models.grid import GridLinear

    return (
        hasattr(tensor, "quant_state")
        or (isinstance(owner, FourBitExperts) and tensor.ndim == _FUSED)
        or (isinstance(owner, GridLinear) and tensor is owner.codes)
    )


class PeakMemory:
    """Samples, while it is open, the most private memory above what there was at the start; ``nbytes`` has the result.

    On Linux it is the anonymous part only: pages of a mapped checkpoint can be dropped at any time and are no demand on memory.
    With ``cards`` it is what was allocated on these instead.
    """

    def __init__(self, cards: tuple[int, ...] = ()) -> None:
        self.nbytes = 0
        self._cards = cards
        self._on_cards = _allocated(cards)
        self._base = private_bytes()
        self._done = Event()
        self._thread = Thread(target=self._sample, name="fader-peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self.nbytes = max(self.nbytes, private_bytes() - self._base)
        if self._cards:
            self.nbytes = _allocated(self._cards, most=True) - self._on_cards

    def _sample(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self.nbytes = max(self.nbytes, private_bytes() - self._base)


def _allocated(cards: tuple[int, ...], *, most: bool = False) -> int:
    """Bytes allocated on these cards now, from which ``most`` counts: the most there were since."""
    if not cards:
        return 0
    import torch

    if most:
        return sum(torch.cuda.max_memory_allocated(card) for card in cards)
    for card in cards:
        torch.cuda.reset_peak_memory_stats(card)
    return sum(torch.cuda.memory_allocated(card) for card in cards)


def private_bytes() -> int:
    """Anonymous resident memory of this process on Linux, all resident memory elsewhere."""
    if sys.platform == "linux":
        for line in _STATUS.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    import psutil

    return int(psutil.Process().memory_info().rss)
