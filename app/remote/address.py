"""Names of models that run elsewhere: ``https://host:port/v1#model``, the address of an OpenAI-compatible server and a model's id there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from app.errors import ModelNotFound, RefusedInput

_SCHEME = re.compile(r"https?://", re.IGNORECASE)


def is_remote(name: str | None) -> bool:
    """Whether a model's name is such an address."""
    return bool(name and _SCHEME.match(name.strip()))


@dataclass(frozen=True, slots=True)
class Address:
    """``base``: the address below which ``/models`` and ``/chat/completions`` are, without a slash at its end. ``model``: the id, empty
    for the only model that the server has."""

    base: str
    model: str = ""

    @property
    def name(self) -> str:
        """The whole name."""
        return f"{self.base}#{self.model}" if self.model else self.base

    @property
    def host(self) -> str:
        """Host and port, as shown."""
        return urlsplit(self.base).netloc

    @property
    def origin(self) -> tuple[str, str]:
        """What a key is valid for: scheme, and host with port."""
        parts = urlsplit(self.base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return parts.scheme, f"{parts.hostname}:{port}"

    @property
    def leaves_machine(self) -> bool:
        """Whether text sent there goes to another machine."""
        name = urlsplit(self.base).hostname or ""
        try:
            return not ip_address(name).is_loopback
        except ValueError:
            return name != "localhost" and not name.endswith(".localhost")

    @property
    def encrypted(self) -> bool:
        """Whether others on the way can't read along."""
        return self.base.startswith("https")


def parse(name: str) -> Address:
    """The parts of a name. Raises ModelNotFound for what is no address, RefusedInput for one that holds a password or a query."""
    text, _, model = name.strip().partition("#")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as cause:
        raise ModelNotFound(f"“{name}” is not an address: {cause}.") from cause
    if not parts.hostname:
        raise ModelNotFound(f"“{name}” names no host. Write it as https://host:port/v1#model.")
    if parts.username or parts.password or parts.query:
        raise RefusedInput(
            "Leave keys and passwords out of the model's address, which is kept with every conversation: set FADER_REMOTE_URL and "
            "FADER_REMOTE_KEY instead."
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port is None else f"{host}:{port}"
    return Address(f"{parts.scheme.lower()}://{where}{parts.path.rstrip('/') or '/v1'}", model.strip())
