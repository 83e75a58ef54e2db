"""Fetches a model from the Hugging Face hub into its local cache: with progress, stoppable, resumed where it was left, and verified."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from threading import Lock
from typing import Any, Self

from app.errors import FaderError, ModelDamaged, ModelError
from app.models.hub_errors import as_error
from app.models.hub_parts import SHA256, fetch_large
from app.models.watch import Watch

WANTED = ("*.json", "*.jinja", "*.model", "*.txt", "*.safetensors")
OLD_WEIGHTS = ("*.json", "*.jinja", "*.model", "*.txt", "*.bin")
ANSWER_S = 15
_SPARE = 256 << 20


def download(repo: str, watch: Watch) -> Path:
    """The folder of the newest snapshot. What was fetched before, by an earlier attempt too, isn't fetched again.

    Raises ModelNotFound (no such repository, private, gated, or no network), ModelError without space, ModelDamaged, Cancelled.
    """
    from huggingface_hub import snapshot_download

    watch.step(f"Asking for {repo}")
    try:
        sizes = _sizes(repo)
        missing = _missing(repo, sizes)
        _need_space(repo, sum(missing.values()))
        counter = _Counter(watch, repo, sum(sizes.values()) - sum(missing.values()), sum(sizes.values()))
        with _over_http():
            fetch_large(repo, missing, counter)
            folder = Path(
                snapshot_download(repo, allow_patterns=list(sizes), tqdm_class=counter.bar_class(), max_workers=4)
            )
    except FaderError:
        raise
    except Exception as cause:
        raise as_error(repo, cause) from cause
    verify(folder, watch)
    return folder


def _sizes(repo: str) -> dict[str, int]:
    """The files that are needed, with their bytes."""
    from huggingface_hub import HfApi

    listed = HfApi().model_info(repo, files_metadata=True, timeout=ANSWER_S).siblings or []
    sizes = {file.rfilename: int(file.size or 0) for file in listed}
    patterns = WANTED if any(name.endswith(".safetensors") for name in sizes) else OLD_WEIGHTS
    return {name: size for name, size in sizes.items() if any(fnmatch(name, pattern) for pattern in patterns)}


def _missing(repo: str, sizes: dict[str, int]) -> dict[str, int]:
    """Those of the needed files that are not in the cache yet."""
    from huggingface_hub import try_to_load_from_cache

    return {name: size for name, size in sizes.items() if not isinstance(try_to_load_from_cache(repo, name), str)}


def _need_space(repo: str, needed: int) -> None:
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE)
    disk = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(disk).free
    if needed + _SPARE > free:
        raise ModelError(
            f"Downloading {repo} takes {needed / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are free. "
            "Free some space or set HF_HOME to a folder on another disk."
        )


@contextmanager
def _over_http() -> Iterator[None]:
    """Within it the hub library downloads by plain HTTP: its other way (Xet) is not known to heed Cancel."""
    from huggingface_hub import constants

    before, constants.HF_HUB_DISABLE_XET = constants.HF_HUB_DISABLE_XET, True
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = before


class _Counter:
    """Bytes of all files together, out of the bars that the hub library makes: one it writes to the disk by, others that tell the same."""

    def __init__(self, watch: Watch, repo: str, done: int, total: int) -> None:
        self._watch, self._what = watch, f"Downloading {repo}"
        self._done, self._total = done, total
        self._lock = Lock()

    def told(self, more: int) -> None:
        """``more`` bytes have come. Raises Cancelled, which ends the download of the file that asks."""
        with self._lock:
            self._done += more
            done = min(self._done, self._total)
        self._watch.step(self._what, done, self._total)

    def pause(self, seconds: float) -> None:
        """Wait, unless the download is cancelled."""
        self._watch.cancelled.wait(seconds)
        self.told(0)

    def bar_class(self) -> type[Any]:
        """A class in place of tqdm; the library wants a class, not an object."""
        counter = self

        class Bar:
            """Draws nothing. Counts where it is the one for bytes on the disk."""

            def __init__(self, *_: object, total: float | None = None, unit: str = "it", **others: object) -> None:
                self.n, self.total, self.format_dict = 0, total, {"rate": None}
                self._counts = unit == "B" and "ownload" not in str(others.get("desc"))

            def update(self, n: float | None = 1) -> None:
                self.n += int(n or 0)
                counter.told(int(n or 0) if self._counts else 0)

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                """Nothing was drawn."""

            def __getattr__(self, name: str) -> Any:
                if name.startswith("_") or name in ("get_lock", "set_lock"):
                    raise AttributeError(name)
                return lambda *_args, **_kwargs: None

        return Bar


def verify(folder: Path, watch: Watch) -> None:
    """Hold each weight file against the SHA-256 that the hub names it by. Raises ModelDamaged; the damaged file is then gone, so that
    the next attempt fetches it anew."""
    from app.models.prepared import sha256

    blobs = {file: file.resolve() for file in folder.rglob("*") if file.suffix in (".safetensors", ".bin")}
    named = {file: blob for file, blob in blobs.items() if len(blob.name) == SHA256}
    for number, (file, blob) in enumerate(sorted(named.items())):
        watch.step("Verifying the download", number, len(named))
        if sha256(blob) != blob.name:
            file.unlink()
            blob.unlink()
            raise ModelDamaged(
                f"{file.name} of {folder.parents[1].name} did not arrive as the hub has it. Load it again."
            )
