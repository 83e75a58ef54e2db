"""Large files of a hub repository, fetched in pieces into the hub's own cache: what a stopped or broken download has left is gone on with.

The hub library throws a file away that was not fetched in one go, and a shard has gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

LARGE = 1 << 20
"""Bytes from which on a file is worth it."""
SHA256 = 64
"""Hex digits by which the hub names a large file; other names are no hashes of the content."""
_PIECE = 1 << 20
_ATTEMPTS = 5
_PAUSE_S = 1.0
_TIMEOUT_S = 20


class Counter(Protocol):
    """Who is told of bytes that have come; raises Cancelled to end the download."""

    def told(self, more: int) -> None:
        """So many more (or less, when a file begins anew)."""

    def pause(self, seconds: float) -> None:
        """Wait, unless the download is cancelled."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file that is being fetched: where from, where to, and its size in bytes."""

    url: str
    blob: Path
    size: int

    @property
    def beginning(self) -> Path:
        """What there is of it so far."""
        return self.blob.with_name(f"{self.blob.name}.fader-part")


def fetch_large(repo: str, sizes: dict[str, int], counter: Counter) -> None:
    """Put the large ones of these files (bytes by name) into the cache, one after the other. The library links them afterwards.

    Raises what the hub library and its HTTP client raise, and Cancelled.
    """
    from huggingface_hub import constants

    blobs = Path(constants.HF_HUB_CACHE) / "--".join(["models", *repo.split("/")]) / "blobs"
    for name in sorted(name for name, size in sizes.items() if size >= LARGE):
        part = _part(repo, name, blobs)
        if part is not None and not part.blob.exists():
            blobs.mkdir(parents=True, exist_ok=True)
            _fetch(part, counter)


def _part(repo: str, name: str, blobs: Path) -> Part | None:
    """What the hub says of a file; None for one that it doesn't name by its hash."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(repo, name)
    told = get_hf_file_metadata(url)
    if told.etag is None or told.size is None or len(told.etag) != SHA256:
        return None
    return Part(hf_hub_url(repo, name, revision=told.commit_hash), blobs / told.etag, int(told.size))


def _fetch(part: Part, counter: Counter) -> None:
    """All of it, with as many attempts as it takes while each gets further."""
    if part.beginning.exists():
        counter.told(part.beginning.stat().st_size)
    left = _ATTEMPTS
    while (have := _size(part.beginning)) < part.size:
        try:
            _go_on(part, have, counter)
        except _lost_connections():
            left = _ATTEMPTS if _size(part.beginning) > have else left - 1
            if not left:
                raise
            counter.pause(_PAUSE_S)
    part.beginning.replace(part.blob)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _go_on(part: Part, have: int, counter: Counter) -> None:
    hub = _utilities()
    headers = {**hub.build_hf_headers(), "Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with hub.get_session().stream(
        "GET", part.url, headers=headers, follow_redirects=True, timeout=_TIMEOUT_S
    ) as answer:
        if answer.status_code >= 400:
            answer.read()  # the reason is in the body
        hub.hf_raise_for_status(answer)
        from_start = answer.status_code == 200
        if have and from_start:
            counter.told(-have)
        with part.beginning.open("wb" if from_start else "ab") as file:
            _write(answer.iter_bytes(_PIECE), file.write, counter)


def _write(pieces: Any, write: Callable[[bytes], Any], counter: Counter) -> None:
    for piece in pieces:
        write(piece)
        counter.told(len(piece))


def _lost_connections() -> tuple[type[Exception], ...]:
    """The errors that another attempt may overcome, of the HTTP client that the installed hub library uses."""
    client: Any = import_module(type(_utilities().get_session()).__module__.partition(".")[0])
    return (client.TransportError,)


def _utilities() -> Any:
    """The hub library's own session and headers (with the user's token); documented, but not announced to type checkers."""
    return import_module("huggingface_hub.utils")
