"""The kernels as Python sees them: a loaded library, the threads that work for it, and the structures it reads.

Calls leave the interpreter to other threads while they run. Structures mirror those in ``source/*.h``.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.native.build import NotBuilt, build

if TYPE_CHECKING:
    import torch

POINTER, INTEGER = ctypes.c_void_p, ctypes.c_int64
LEVELS, GRID, GRID8, HALF, WHOLE = range(5)
"""How a weight lies in memory; see ``enum kind`` in weights.h."""


class WeightStruct(ctypes.Structure):
    """``weight`` in weights.h."""

    _fields_ = (
        *((name, INTEGER) for name in ("kind", "rows", "columns")),
        *((name, POINTER) for name in ("codes", "scales", "offsets", "bias")),
        ("levels", ctypes.c_uint16 * 16),
    )


class Kernels:
    """The loaded library and its threads: a call says how many of them it takes, ``threads`` unless it knows better.

    Calls from several threads wait for each other.
    """

    def __init__(self, path: Path, threads: int) -> None:
        try:
            self.calls: Any = ctypes.CDLL(str(path))
        except OSError as cause:
            raise NotBuilt(f"the kernels can't be loaded: {cause}") from cause
        self._declare()
        self.threads = threads
        self.team: int | None = self.calls.fader_team()
        self._own = threading.local()

    def _declare(self) -> None:
        calls, structure = self.calls, ctypes.POINTER(WeightStruct)
        calls.fader_team.restype, calls.fader_team.argtypes = POINTER, []
        calls.fader_disband.restype, calls.fader_disband.argtypes = None, [POINTER]
        calls.fader_multiply.restype = ctypes.c_int
        calls.fader_multiply.argtypes = [POINTER, INTEGER, structure, POINTER, INTEGER, POINTER]
        calls.fader_unpack.restype, calls.fader_unpack.argtypes = None, [POINTER, INTEGER, structure, POINTER, INTEGER]
        calls.fader_largest.restype, calls.fader_largest.argtypes = INTEGER, [POINTER, INTEGER, INTEGER, POINTER]
        calls.fader_sum.restype, calls.fader_sum.argtypes = None, [POINTER, INTEGER, POINTER]
        calls.fader_step_room.restype = INTEGER
        calls.fader_step_room.argtypes = [POINTER, INTEGER, INTEGER, INTEGER]
        calls.fader_step.restype = None
        calls.fader_step.argtypes = [POINTER, INTEGER, POINTER, POINTER, INTEGER, POINTER, POINTER, POINTER]

    def disband(self) -> None:
        """End the threads. Not while a call runs, and none afterwards."""
        if self.team is not None:
            self.calls.fader_disband(self.team)
        self.team = None

    def scratch(self, rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
        """Memory [rows, columns] that the next call for this thread and dtype uses again: fresh pages cost more than a product."""
        import torch

        held = getattr(self._own, "held", None)
        if held is None:
            held = self._own.held = {}
        buffer = held.get(dtype)
        if buffer is None or buffer.numel() < rows * columns:
            buffer = held[dtype] = torch.empty(rows * columns, dtype=dtype)
        part: torch.Tensor = buffer[: rows * columns].view(rows, columns)
        return part


def open_kernels(cache_folder: Path) -> Kernels:
    """The kernels of this process, one team for all models. Raises NotBuilt."""
    return _opened(build(cache_folder))


@cache
def _opened(library: Path) -> Kernels:
    import torch

    return Kernels(library, torch.get_num_threads())
