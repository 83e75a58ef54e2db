"""Models of the Hugging Face hub: taken from its local cache when they are there, downloaded with progress when not."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.conversation import Json
from app.errors import ModelDamaged, ModelError, ModelNotFound, UnsupportedModel
from app.models.folder import check_folder, weight_files
from app.models.hub_download import ANSWER_S, OLD_WEIGHTS, WANTED, download
from app.models.hub_errors import as_error
from app.models.watch import Watch

ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository in the local hub cache; ``nbytes`` on disk, ``revision`` of its newest snapshot."""

    id: str
    revision: str
    nbytes: int
    folder: Path


def fetch(repo: str, watch: Watch) -> Path:
    """The folder of a snapshot, from the cache if it is there in full; else downloaded. Without a network a snapshot will do that has at
    least what a model needs.

    Raises ModelNotFound (no such repository, private, or no network), UnsupportedModel (a Paddle repository), Cancelled.
    """
    refuse_paddle(repo)
    if (whole := cached(repo)) is not None:
        return whole
    try:
        return download(repo, watch)
    except ModelNotFound:
        if (enough := _left_of(repo)) is not None:
            return enough
        raise


def refuse_paddle(repo: str) -> None:
    """Raise UnsupportedModel for a repository whose name says that its weights are Paddle's."""
    if repo.lower().endswith("-paddle"):
        raise UnsupportedModel(f"{repo} holds weights for Paddle. Take {repo[: -len('Paddle')]}PT instead.")


def cached(repo: str) -> Path | None:
    """The newest snapshot in the cache if everything that is needed of it is there; never touches the network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    for patterns in (WANTED, OLD_WEIGHTS):
        try:
            folder = Path(snapshot_download(repo, local_files_only=True, allow_patterns=list(patterns)))
            weight_files(folder)
        except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError, ModelDamaged, OSError, ValueError):
            continue
        return folder
    return None


def _left_of(repo: str) -> Path | None:
    """A snapshot that lacks something by the hub's list, but nothing without which a model can't be loaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import IncompleteSnapshotError

    try:
        snapshot_download(repo, local_files_only=True)
    except IncompleteSnapshotError as partial:
        folder = Path(partial.snapshot_path)
        with suppress(ModelError):
            check_folder(folder)
            return folder
    except (OSError, ValueError):
        pass
    return None


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
    """A folder with the repository's config.json, from the cache or by downloading this one file. Raises ModelNotFound, ModelError."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo, "config.json", etag_timeout=ANSWER_S)).parent
    except Exception as cause:
        raise as_error(repo, cause) from cause
