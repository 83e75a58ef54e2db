"""How a command finds the Fader that is running on a data folder: a small file with its address, gone when it ends."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import Request, urlopen

from app.errors import RefusedInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.conversation import Json

NAME = "server.json"
TIMEOUT_S = 120
"""Long enough for what is queued before it."""


@contextmanager
def announced(home: Path, address: str) -> Iterator[None]:
    """Tell where the page is while the block runs; the last server to start is the one that is found."""
    file = home / NAME
    mine = json.dumps({"address": address, "pid": os.getpid()})
    with suppress(OSError):  # a folder that can only be read is no reason not to serve
        file.write_text(mine, encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            if file.read_text(encoding="utf-8") == mine:
                file.unlink()


def post(home: Path, path: str) -> Json:
    """Ask the running Fader for something. Raises RefusedInput when none answers, or it refuses."""
    try:
        address = json.loads((home / NAME).read_text(encoding="utf-8"))["address"]
        request = Request(  # noqa: S310  (the address comes from our own file)
            address.rstrip("/") + path, data=b"{}", headers={"X-Fader": "1", "Content-Type": "application/json"}
        )
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            return json.load(answer)
    except (OSError, URLError, ValueError, KeyError) as error:
        sentence = f"No Fader is running on {home}, or it does not let this command in ({error})."
        raise RefusedInput(sentence) from error
