"""Models of the Hugging Face hub: taken from its local cache when they are there, downloaded with progress when not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.conversation import Json
from app.errors import Cancelled, ModelDamaged, ModelNotFound, UnsupportedModel
from app.models.builtin import POINT_ELSEWHERE
from app.models.watch import Watch

ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_WANTED = ["*.json", "*.jinja", "*.model", "*.txt", "*.safetensors"]
_OLD_WEIGHTS = ["*.json", "*.jinja", "*.model", "*.txt", "*.bin"]


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository in the local hub cache; ``nbytes`` on disk, ``revision`` of its newest snapshot."""

    id: str
    revision: str
    nbytes: int
    folder: Path


def fetch(repo: str, watch: Watch) -> Path:
    """The folder of a snapshot that is complete, from the cache if possible.

    Raises ModelNotFound (no such repository, private, or no network), UnsupportedModel (a Paddle repository), Cancelled.
    """
    if repo.lower().endswith("-paddle"):
        raise UnsupportedModel(f"{repo} holds weights for Paddle. Take {repo[: -len('Paddle')]}PT instead.")
    local = cached(repo)
    return local if local is not None else _download(repo, watch)


def cached(repo: str) -> Path | None:
    """The newest snapshot in the cache if its weights are all there; never touches the network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    from app.models.folder import weight_files

    try:
        folder = Path(snapshot_download(repo, local_files_only=True))
        weight_files(folder)
    except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError, ModelDamaged, OSError, ValueError):
        return None
    return folder


def _download(repo: str, watch: Watch) -> Path:
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.errors import RepositoryNotFoundError as NoRepository

    watch.step(f"Downloading {repo}")
    try:
        bar = _progress_bar(watch, repo)
        patterns = _WANTED if _has_safetensors(repo) else _OLD_WEIGHTS
        return Path(snapshot_download(repo, allow_patterns=patterns, tqdm_class=bar, max_workers=4))
    except GatedRepoError as cause:
        raise ModelNotFound(
            f"{repo} is behind a licence that must be accepted on its page, with HF_TOKEN set."
        ) from cause
    except NoRepository as cause:
        raise ModelNotFound(f"There is no model {repo} on the hub (or it is private).") from cause
    except HFValidationError as cause:
        raise ModelNotFound(f"“{repo}” is neither a file, a folder nor the id of a model on the hub.") from cause
    except (LocalEntryNotFoundError, HfHubHTTPError, httpx.HTTPError, OSError) as cause:
        if isinstance(cause, OSError) and cause.errno is not None and not isinstance(cause, ConnectionError):
            raise
        raise ModelNotFound(
            f"{repo} is not on this machine and could not be downloaded (no connection?). {POINT_ELSEWHERE}"
        ) from cause


def _has_safetensors(repo: str) -> bool:
    from huggingface_hub import list_repo_files

    return any(name.endswith(".safetensors") for name in list_repo_files(repo))


def _progress_bar(watch: Watch, repo: str) -> type[Any]:
    """A tqdm class that draws nothing and reports bytes; made here because the hub wants a class, not an object."""
    from huggingface_hub.utils.tqdm import tqdm

    base: Any = tqdm

    class Bar(base):  # type: ignore[misc]  # tqdm has no types
        def display(self, *_args: object, **_kwargs: object) -> bool:
            return True

        def update(self, n: float | None = 1) -> Any:
            shown = super().update(n)
            if self.unit == "B":
                watch.step(f"Downloading {repo}", int(self.n), int(self.total or 0))
            elif watch.cancelled.is_set():
                raise Cancelled("Loading the model was cancelled.")
            return shown

    return Bar


def in_cache() -> tuple[HubModel, ...]:
    """All model repositories in the hub cache that have weights, by id; an unreadable cache counts as empty."""
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        info = scan_cache_dir(constants.HF_HUB_CACHE)
    except (CacheNotFound, OSError):
        return ()
    found = []
    for repo in info.repos:
        newest = max(repo.revisions, key=lambda r: r.last_modified, default=None)
        if (
            repo.repo_type == "model"
            and newest
            and any(f.file_name.endswith((".safetensors", ".bin")) for f in newest.files)
        ):
            found.append(HubModel(repo.repo_id, newest.commit_hash, repo.size_on_disk, Path(newest.snapshot_path)))
    return tuple(sorted(found, key=lambda model: model.id))


def revision_of(folder: Path) -> dict[str, Json]:
    """The commit of a snapshot folder, which is what it is named after."""
    return {"revision": folder.name}


def config_folder(repo: str) -> Path:
    """A folder with the repository's config.json, from the cache or by downloading this one file. Raises ModelNotFound."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo, "config.json")).parent
    except Exception as cause:
        raise ModelNotFound(f"Nothing is known about {repo}: it isn’t on this machine and can’t be reached.") from cause
