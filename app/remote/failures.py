"""What can go wrong between here and a server, in sentences that say what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.errors import RemoteFailed

if TYPE_CHECKING:
    import httpx

    from app.remote.address import Address

_LONGEST = 400
_TOO_LONG = (
    "context length",
    "context_length",
    "maximum context",
    "context window",
    "too many tokens",
    "prompt is too long",
)


def of_exception(error: Exception, address: Address, *, begun: bool = False) -> RemoteFailed:
    """A connection that failed; ``begun``: some of the reply has come."""
    import httpx

    host = address.host
    if begun and isinstance(error, httpx.TransportError):
        return RemoteFailed(
            f"The connection to {host} broke in the middle of the reply; what had come is kept ({_why(error)})."
        )
    if isinstance(error, httpx.ReadTimeout):
        return RemoteFailed(f"{host} took the request and then sent nothing for a long time.")
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return RemoteFailed(f"{host} does not answer. Is the address right, and does a firewall let it through?")
    if isinstance(error, httpx.TransportError):
        return RemoteFailed(
            f"{host} can't be reached ({_why(error)}). Is the server running, and is the address right?"
        )
    return RemoteFailed(f"{host} answered something that can't be understood ({_why(error)}).")


def _why(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


def of_status(status: int, text: str, address: Address, *, keyed: bool) -> RemoteFailed:
    """A request that the server refused or failed at; ``keyed``: a key went along."""
    said = message_of(text)
    return RemoteFailed(
        f"{address.host} {_what(status, said, address, keyed=keyed)}{f' It says: {said}' if said else ''}"
    )


def _what(status: int, said: str, address: Address, *, keyed: bool) -> str:
    if status == 404:
        model = f"no model “{address.model}”, or " if address.model else ""
        return f"has {model}nothing of the OpenAI interface below {address.base}."
    if status >= 500:
        return f"failed at this request (HTTP {status})."
    if 300 <= status < 400:
        return "points to another address, which is not followed. Give the final address."
    if any(sign in said.lower() for sign in _TOO_LONG):
        return "finds the conversation too long for its model. Begin a new one, or branch from an earlier message."
    known = {
        401: _key_advice(keyed=keyed),
        403: _key_advice(keyed=keyed),
        429: "takes no more requests for now. Try again later.",
    }
    return known.get(status, f"refused the request (HTTP {status}).")


def _key_advice(*, keyed: bool) -> str:
    if keyed:
        return "refuses the key in FADER_REMOTE_KEY."
    return "asks for a key: set FADER_REMOTE_URL to this server's address and FADER_REMOTE_KEY to the key."


def of_stream(chunk: dict[str, Any], address: Address) -> RemoteFailed:
    """An error that came in the place of a piece of the reply."""
    said = message_of(json.dumps(chunk))
    if any(sign in said.lower() for sign in _TOO_LONG):
        return of_status(400, json.dumps(chunk), address, keyed=False)
    return RemoteFailed(f"{address.host} broke the reply off; what had come is kept. It says: {said}")


def message_of(text: str) -> str:
    """The sentence in a server's answer, wherever it put it; its beginning when it is no JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        found = " ".join(text.split())
    for key in ("error", "message", "detail"):
        if isinstance(found, dict):
            found = found.get(key, found)
    said = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False) if found else ""
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


async def raise_for(response: httpx.Response, address: Address, *, keyed: bool) -> None:
    """Raise RemoteFailed unless the server has accepted the request."""
    if response.is_success:
        return
    raise of_status(response.status_code, (await response.aread()).decode(errors="replace"), address, keyed=keyed)
