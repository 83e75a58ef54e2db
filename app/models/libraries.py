"""Importing this brings in what every load needs, so that it can be done in one go.

transformers reads its 1,680 files twice to find out what is in them, because the memory for what it has found holds 128 folders and it has
over 500: here it holds all of them.
"""

from functools import cache
from typing import Any

from app.imports import replace_on_import

replace_on_import(
    "transformers.utils.import_utils",
    "create_import_structure_from_path",
    lambda scan: cache(_plain(scan)),
)


def _plain(scan: Any) -> Any:
    """The function itself, whatever remembers its results."""
    return getattr(scan, "__wrapped__", scan)


from transformers import (  # noqa: E402  (behind the change)
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    PreTrainedModel,
)

from app.engine.fast import proof  # noqa: E402

__all__ = ["AutoConfig", "AutoModelForCausalLM", "AutoTokenizer", "DynamicCache", "PreTrainedModel", "proof"]
