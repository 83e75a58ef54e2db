"""Listens to the libraries while a model loads: harmless noise is dropped, everything else is handed to the user."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from app.overlapping import Overlapping

HARMLESS = (
    "Failed to load CPU gemm_4bit_forward",  # an optional kernel package; bitsandbytes' own kernel is used
    "torch_dtype` is deprecated",
    "The fast path is not available",
    "LOAD REPORT",  # missing and unexpected keys are judged from the loading info
)
_LOUD = ("transformers", "bitsandbytes", "accelerate", "huggingface_hub", "torch")


class _Heard(logging.Handler):
    """Collects warnings and worse as sentences, each once."""

    def __init__(self, into: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        hear(self._into, record.getMessage())


def hear(into: list[str], message: str) -> None:
    """Add a warning unless it is known to be harmless or was heard before."""
    text = " ".join(message.split())
    if text and text not in into and not any(phrase in text for phrase in HARMLESS):
        into.append(text)


@contextmanager
def listening() -> Iterator[list[str]]:
    """Within it, what the model libraries log as warnings lands in the yielded list instead of on the terminal.

    Python's own warnings are left alone: their filters belong to the whole process, and a load runs beside other threads.

    Also keeps the tokenizers library from warning about forked processes. Not re-entrant across threads: one load at a time.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as library

    library.get_logger()  # it installs its own handler at the first call; ours must come after it
    heard: list[str] = []
    handler = _Heard(heard)
    loggers = [logging.getLogger(name) for name in _LOUD]
    before = [(logger.handlers[:], logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
    try:
        yield heard
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate


def _hush() -> Callable[[], None]:
    from transformers import logging as library

    before = library.get_verbosity()
    library.set_verbosity_error()
    return partial(library.set_verbosity, before)


hushed = Overlapping(_hush)
"""Within it, generate keeps its warnings to itself: the values it doubts were resolved and explained to the user already."""
