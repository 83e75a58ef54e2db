"""Memory that is free in this process is handed back to the system, which allocators put off."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from app.garbage import collect


def hand_back() -> None:
    """Collect what nothing refers to any more, and ask the allocators to keep none of it, where they can be asked."""
    import torch

    collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl hasn't
        if trim is not None:
            trim(0)
