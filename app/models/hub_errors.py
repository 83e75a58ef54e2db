"""What goes wrong between this machine and the hub, in sentences that say what to do."""

from __future__ import annotations

from app.errors import FaderError, ModelError, ModelNotFound
from app.models.builtin import POINT_ELSEWHERE

_CONNECTION = ("httpx", "httpx2", "httpcore")
"""Whichever of these the installed huggingface_hub speaks HTTP with; it doesn't hide their errors."""


def as_error(repo: str, cause: Exception) -> FaderError:
    """What went wrong, in a sentence that says what to do."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RemoteEntryNotFoundError,
    )
    from huggingface_hub.errors import RepositoryNotFoundError as NoRepository

    if isinstance(cause, GatedRepoError):
        sentence = f"{repo} is behind a licence. Accept it on the model’s page at the hub, and set HF_TOKEN to a token of that account."
    elif isinstance(cause, NoRepository):
        sentence = f"There is no model {repo} on the hub. If it is private, set HF_TOKEN to a token that may read it."
    elif isinstance(cause, RemoteEntryNotFoundError):
        sentence = f"{repo} has no config.json, so it isn’t a transformers model. Of a GGUF repository fetch one file and give its path."
    elif isinstance(cause, HFValidationError):
        sentence = f"“{repo}” is neither a file, a folder nor the id of a model on the hub."
    elif isinstance(cause, OfflineModeIsEnabled) or (
        constants.HF_HUB_OFFLINE and isinstance(cause, LocalEntryNotFoundError)
    ):
        sentence = f"{repo} is not on this machine, and HF_HUB_OFFLINE forbids to fetch it. {POINT_ELSEWHERE}"
    elif (status := getattr(getattr(cause, "response", None), "status_code", None)) is not None:
        sentence = _refused(repo, int(status))
    elif isinstance(cause, (LocalEntryNotFoundError, ConnectionError, TimeoutError)) or _is_connection(cause):
        sentence = f"{repo} is not on this machine and could not be downloaded (no connection?). {POINT_ELSEWHERE}"
    elif isinstance(cause, OSError):
        return ModelError(
            f"{repo} could not be downloaded: {cause.strerror or cause}. HF_HOME says where models are kept."
        )
    else:
        return ModelError(f"{repo} could not be downloaded: {cause}")
    return ModelNotFound(sentence)


def _refused(repo: str, status: int) -> str:
    if status in (401, 403):
        return f"The hub does not let this machine have {repo} ({status}). Check the token in HF_TOKEN; public models need none."
    later = "Too many downloads from here; try" if status == 429 else "Try"
    return f"The hub could not give {repo} ({status}). {later} again later. {POINT_ELSEWHERE}"


def _is_connection(cause: Exception) -> bool:
    return any(kind.__module__.partition(".")[0] in _CONNECTION for kind in type(cause).__mro__)
