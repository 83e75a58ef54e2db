"""``fader bench``: hands over to the programs in ``bench/`` of the checkout, which are no part of the product."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import RefusedInput

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKOUT = Path(__file__).resolve().parents[2]


def run(arguments: Sequence[str]) -> int:
    """Run ``python -m bench`` with these arguments and return its exit status. Raises RefusedInput where there is no checkout."""
    if not (CHECKOUT / "bench" / "__main__.py").is_file():
        raise RefusedInput("The benchmarks are in Fader's checkout, in the folder bench; here there is none.")
    return subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=CHECKOUT, check=False).returncode  # noqa: S603
