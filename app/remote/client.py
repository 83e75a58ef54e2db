"""Connections to an OpenAI-compatible server: made for one conversation with it, ended as soon as the user says stop."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from app.errors import Cancelled
from app.remote import address as addresses

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from threading import Event
    from typing import Any

    import httpx

    from app.remote.address import Address
    from app.settings import Settings

T = TypeVar("T")
CONNECT_S = 10.0
SILENT_S = 600.0
"""A long prompt, or a queue of others, is silent for a while."""

LOOK_AGAIN_S = 0.05
"""A stop comes from another thread; so long it may stay unnoticed while the server sends nothing."""


class TimeUp(Exception):
    """The time that was given is over."""


def key_for(address: Address, settings: Settings) -> str | None:
    """The key, if it belongs to this server: it is never sent to another one than FADER_REMOTE_URL."""
    if settings.remote_key is None or settings.remote_url is None:
        return None
    mine = addresses.parse(settings.remote_url)
    return settings.remote_key.get_secret_value() if mine.origin == address.origin else None


def client_for(
    address: Address, settings: Settings, *, silent_s: float = SILENT_S, connect_s: float = CONNECT_S
) -> httpx.AsyncClient:
    """A client for one server: no redirects, no cookies, and no proxy for this machine's own addresses.

    Each request has a connection of its own: a server may close one after an answer just when the next request goes out on it.
    """
    import httpx

    key = key_for(address, settings)
    return httpx.AsyncClient(
        headers={"Authorization": f"Bearer {key}"} if key else {},
        timeout=httpx.Timeout(connect=connect_s, read=silent_s, write=CONNECT_S, pool=CONNECT_S),
        limits=httpx.Limits(max_keepalive_connections=0),
        trust_env=address.leaves_machine,
        follow_redirects=False,
    )


def talk(work: Coroutine[Any, Any, T], cancelled: Event, seconds: float | None = None) -> T:
    """Carry out ``work`` in this thread. Raises Cancelled or TimeUp, and then its connection is closed already."""
    return asyncio.run(_until(work, cancelled, seconds))


async def _until(work: Coroutine[Any, Any, T], cancelled: Event, seconds: float | None) -> T:
    task = asyncio.ensure_future(work)
    end = None if seconds is None else monotonic() + seconds
    while not task.done():
        await asyncio.wait({task}, timeout=LOOK_AGAIN_S)
        late = end is not None and monotonic() >= end
        if not task.done() and (late or cancelled.is_set()):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise Cancelled if cancelled.is_set() else TimeUp
    return task.result()
