"""Turns what the model libraries raise into Fader's errors, so that a user reads a cause and not a traceback."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import clear_frames

from app.errors import FaderError, ModelDamaged, ModelError, OutOfMemory, UnsupportedModel

_NO_MEMORY = (
    *("can't allocate memory", "out of memory", "not enough memory", "cannot allocate memory"),
    "dispatched on the cpu or the disk",  # 4-bit weights for which the cards had no room
)
_DAMAGED = (
    "safetensor",
    "header",
    "corrupt",
    "incomplete metadata",
    "unexpected end",
    "mmap length",
    "truncated",
    "zip archive",  # what a torch file is
    "unpickling",
)
_UNSUPPORTED = ("not supported", "unrecognized", "does not recognize", "no kernel", "requires `", "trust_remote_code")

_MEMORY_FULL = (
    "There is not enough memory to load {label}. Choose a smaller model, a shorter context, or close other programs."
)
_CARD_FULL = "The graphics card has not enough memory for {label}. Load it in 4 bits, choose a smaller model, or take the processor (cpu)."
_MISFIT = "issues during automatic conversion of the weights"


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Within it, any exception about the model ``label`` leaves as a ModelError; Fader's own errors pass unchanged.

    Either way the frames below let go of what they hold: an error that is kept for display must not keep half a model in memory.
    """
    try:
        yield
    except FaderError as known:
        clear_frames(known.__traceback__)
        raise
    except Exception as cause:
        clear_frames(cause.__traceback__)
        raise as_model_error(label, cause) from cause


def is_full(cause: Exception) -> bool:
    """Whether something could not be written because the disk is full, whichever library tried."""
    return (isinstance(cause, OSError) and cause.errno == errno.ENOSPC) or "no space left" in str(cause).lower()


def as_model_error(label: str, cause: Exception) -> ModelError:
    """The ModelError that says what ``cause`` means for the user."""
    text = f"{type(cause).__name__}: {cause}"
    first = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    low = text.lower()
    if isinstance(cause, MemoryError) or any(word in low for word in _NO_MEMORY):
        return OutOfMemory((_CARD_FULL if "cuda" in low else _MEMORY_FULL).format(label=label))
    if is_full(cause):
        return ModelError(
            f"There is no space left on the disk to prepare {label}. Free some space or set FADER_CACHE to another disk."
        )
    if _MISFIT in text:
        return ModelDamaged(
            f"The weights of {label} don’t fit its config.json: tensors are missing or have other shapes."
        )
    if isinstance(cause, ImportError) or any(word in low for word in _UNSUPPORTED):
        return UnsupportedModel(f"{label} can't be run: {first}")
    if isinstance(cause, (EOFError, UnicodeDecodeError)) or any(word in low for word in _DAMAGED):
        return ModelDamaged(f"The files of {label} are damaged or incomplete: {first}")
    return ModelError(f"{label} could not be loaded: {first}")
