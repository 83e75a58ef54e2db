"""Where a model goes: which cards its options mean on this machine, the map for the loader, and how much memory is free there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.errors import OutOfMemory, UnsupportedModel
from app.models.options import LoadOptions

FOR_WEIGHTS = 0.85
"""Of a card's free memory; the rest is for keys, values and what a prompt needs."""

_CGROUP = Path("/sys/fs/cgroup")


def cards() -> int:
    """Graphics cards that PyTorch can compute on."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def cards_for(options: LoadOptions) -> tuple[int, ...]:
    """The numbers of the cards that are meant, none for the processor. Raises UnsupportedModel for a card that isn't there."""
    if options.device == "cpu" or (options.device == "auto" and not cards()):
        return ()
    if reason := unusable(options.device):
        raise UnsupportedModel(f"Can’t run on {options.device}: {reason}. Choose the processor (cpu) or auto.")
    number = options.device.partition(":")[2]
    return (int(number),) if number else tuple(range(cards()))


def unusable(device: str) -> str:
    """Why a device can't be had here; empty when it can."""
    if not device.startswith("cuda"):
        return ""
    if not cards():
        return "PyTorch finds no graphics card here that it can compute on (CUDA)"
    number = int(device.partition(":")[2] or 0)
    return "" if number < cards() else f"there is no card {number}, the last one is cuda:{cards() - 1}"


def device_map(options: LoadOptions) -> str | dict[str, str | int]:
    """For from_pretrained. Several cards are shared out by accelerate; one, and the processor, are asked for outright: what
    doesn't fit must not end up half here and half there, 4-bit weights can't."""
    used = cards_for(options)
    if len(used) > 1:
        return "auto"
    return {"": used[0]} if used else {"": "cpu"}


def placement(options: LoadOptions) -> dict[str, Any]:
    """Where from_pretrained puts the weights. Several cards get their bounds, and main memory none: what doesn't fit is refused
    (``refuse_spill``) instead of being fetched from elsewhere at every token."""
    import torch

    where: dict[str, Any] = {"device_map": device_map(options)}
    if where["device_map"] == "auto":
        free = {number: int(torch.cuda.mem_get_info(number)[0]) for number in cards_for(options)}
        where["max_memory"] = {number: int(nbytes * FOR_WEIGHTS) for number, nbytes in free.items()}
    return where


def refuse_spill(model: Any, label: str) -> None:
    """Raise OutOfMemory when accelerate found no room on the cards for a part of a model."""
    where = getattr(model, "hf_device_map", {})
    outside = [part for part, place in where.items() if place in ("disk", "cpu")]
    if outside and len(set(where.values())) > 1:
        raise OutOfMemory(
            f"{label} doesn’t fit on the graphics cards: no room for {outside[0]}, and {len(outside) - 1} more of its {len(where)} parts. "
            "Load it in 4 bits, choose a smaller one, or take the processor (cpu)."
        )


def free_bytes(options: LoadOptions) -> int:
    """Memory a load can use without swapping: the cards' if they are used, else the machine's within its container's limit."""
    import psutil
    import torch

    if used := cards_for(options):
        return sum(int(torch.cuda.mem_get_info(number)[0]) for number in used)
    available = int(psutil.virtual_memory().available)
    limit = _container_free()
    return available if limit is None else min(available, limit)


def _container_free() -> int | None:
    """What a cgroup (v2) still allows, file cache counted as free; None without a limit."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return limit - used + int(stat.get("file", 0))
    except (OSError, ValueError):
        return None


def slow_dtype(options: LoadOptions) -> str:
    """A sentence where the cards have no units for the chosen numbers; empty when they have."""
    import torch

    cuda: Any = torch.cuda
    if options.quantization.compute_dtype != "bfloat16" or not cards_for(options):
        return ""
    if cuda.is_bf16_supported(including_emulation=False):
        return ""
    return "This graphics card computes bfloat16 slowly; “Computes in: float16” is much quicker."
