"""Mixture-of-experts weights in 4 bits: one module that stands in for transformers' fused experts and unpacks only what is used.

A token is multiplied with the experts it is routed to, with the project's kernels straight from their 4-bit weights; when many tokens
meet the same expert it is unpacked once and multiplied densely. Which of the two depends on the number of rows only, so results are
reproducible. Without kernels (on a GPU, or where none could be built) an expert is always unpacked first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from app.models.packing import BLOCKSIZE, fits, levels, unpack

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from app.native.library import Kernels
    from app.native.weights import Weight

WEIGHTS = ("gate_up_proj", "down_proj")
SCALES = "_absmax"


def can_be_4bit(module: nn.Module) -> bool:
    """Whether a module is a fused-experts module of the library's common form: [experts, 2 x inner, hidden] and its way back.

    Transposed, interleaved, biased and ungated variants (seven of 69 architectures) are left alone.
    """
    flags = {"has_gate": True, "is_concatenated": True, "has_bias": False, "is_transposed": False}
    if any(getattr(module, name, None) is not wanted for name, wanted in flags.items()):
        return False
    shapes = [getattr(module, name, torch.empty(0)).shape for name in WEIGHTS]
    return not getattr(module, "has_post_expert_norm", False) and all(
        len(shape) == 3 and fits(shape[2]) for shape in shapes
    )


class FourBitExperts(nn.Module):
    """Takes the place of a fused-experts module; ``forward`` has the library's experts interface.

    ``gate_up_proj`` uint8 [experts, 2 x inner, hidden/2] and ``down_proj`` uint8 [experts, hidden, inner/2], each with ``…_absmax``.
    """

    def __init__(self, original: nn.Module, scheme: str, dtype: torch.dtype) -> None:
        super().__init__()
        plain = {name: value for name, value in vars(original).items() if not name.startswith("_")}
        vars(self).update({name: value for name, value in plain.items() if name != "training"})
        for name, child in original.named_children():
            self.add_module(name, child)
        self.scheme = scheme
        self.compute_dtype = dtype
        kind: Any = type(original)
        self._gate = kind._apply_gate  # noqa: SLF001  (some architectures bring their own)
        self._kernels: dict[str, list[Weight]] = {}
        for name in WEIGHTS:
            self._placeholders(name, getattr(original, name))
        self.num_experts = len(getattr(original, WEIGHTS[0]))

    def _placeholders(self, name: str, weight: nn.Parameter) -> None:
        """Parameters of the final shapes and dtypes on the weight's device, to be filled by the loader."""
        experts, rows, columns = weight.shape
        blocks = columns // BLOCKSIZE
        codes = torch.empty(experts, rows, columns // 2, dtype=torch.uint8, device=weight.device)
        scales = torch.empty(experts, rows, blocks, dtype=self.compute_dtype, device=weight.device)
        self.register_parameter(name, nn.Parameter(codes, requires_grad=False))
        self.register_parameter(name + SCALES, nn.Parameter(scales, requires_grad=False))

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ) -> torch.Tensor:
        """[tokens, hidden], [tokens, k] expert numbers, [tokens, k] weights -> [tokens, hidden], summed by expert number."""
        per_token = top_k_index.shape[-1]
        chosen = top_k_index.reshape(-1)
        by_expert = torch.argsort(chosen, stable=True)
        weights = top_k_weights.reshape(-1, 1)
        result = torch.zeros_like(hidden_states)
        for expert, pairs in self._shares(chosen, by_expert):
            tokens = pairs // per_token
            inner = self._gate(self, self._product(hidden_states[tokens], "gate_up_proj", expert))
            outer = self._product(inner, "down_proj", expert) * weights[pairs]
            result.index_add_(0, tokens, outer.to(result.dtype))
        return result

    def _shares(self, chosen: torch.Tensor, by_expert: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Each expert that is hit, with the positions in ``chosen`` that hit it. Numbers beyond the last expert mean none."""
        start = 0
        for expert, count in enumerate(torch.bincount(chosen, minlength=self.num_experts)[: self.num_experts].tolist()):
            if count:
                yield expert, by_expert[start : start + count]
            start += count

    def use(self, kernels: Kernels) -> None:
        """Multiply with the kernels from now on; once the weights are loaded, and only on a CPU."""
        from app.native.weights import from_levels

        table = levels(self.scheme)
        for name in WEIGHTS:
            pairs = zip(getattr(self, name), getattr(self, name + SCALES), strict=True)
            self._kernels[name] = [from_levels(kernels, codes, scales, table) for codes, scales in pairs]

    def kernels(self, name: str) -> list[Weight]:
        """``gate_up_proj`` or ``down_proj`` of each expert as the kernels read it; empty without kernels."""
        return self._kernels.get(name, [])

    def _product(self, rows: torch.Tensor, name: str, expert: int) -> torch.Tensor:
        """Rows [n, columns] times one expert's weight: [n, rows of the weight], in the rows' dtype."""
        if self._kernels and not torch.compiler.is_compiling():
            return self._kernels[name][expert].apply(rows)
        codes, scales = getattr(self, name)[expert], getattr(self, name + SCALES)[expert]
        return nn.functional.linear(rows, unpack(codes, scales, self.scheme, rows.dtype))

    def unpacked(self, name: str) -> torch.Tensor:
        """All experts of ``gate_up_proj`` or ``down_proj`` in the compute dtype, as the stock module holds them."""
        pairs = zip(getattr(self, name), getattr(self, name + SCALES), strict=True)
        return torch.stack([unpack(codes, scales, self.scheme, self.compute_dtype) for codes, scales in pairs])


def replace_experts(model: PreTrainedModel, scheme: str, dtype: torch.dtype) -> int:
    """Put a FourBitExperts in place of every experts module that can be 4-bit (before the weights are loaded); how many."""
    found = [(name, module) for name, module in model.named_modules() if can_be_4bit(module)]
    for name, module in found:
        model.set_submodule(name, FourBitExperts(module, scheme, dtype))
    return len(found)
