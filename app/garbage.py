"""Python's collector of cyclic garbage rests while libraries are imported, and leaves alone what they made.

An import makes objects that stay. The collector looks through all of them again and again meanwhile, which is a fifth of the time that
torch, transformers and Gradio need to come up, and at each of its great rounds from then on, which holds up every thread.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from app.overlapping import Overlapping

if TYPE_CHECKING:
    from collections.abc import Callable


def _rest() -> Callable[[], None]:
    gc.disable()
    return _go_on


def _go_on() -> None:
    gc.freeze()
    gc.enable()


importing = Overlapping(_rest)
"""Within it nothing is collected; what is there at its end is never looked at again, until ``collect``."""


def collect() -> None:
    """Collect all that nothing refers to any more."""
    gc.unfreeze()
    gc.collect()
