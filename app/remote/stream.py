"""Server-sent events as an OpenAI-compatible server sends a reply: text lines in, JSON objects out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

DONE = "[DONE]"


async def chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The pieces of a reply as they come, until the server says that it is done; a server that doesn't stream gives one piece.

    Raises ValueError for what is no JSON, and what httpx raises when the connection breaks.
    """
    if "text/event-stream" not in response.headers.get("content-type", ""):
        yield _as_chunk(json.loads(await response.aread()))
        return
    data: list[str] = []
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            text, data = "\n".join(data), []
            if text.strip() == DONE:
                return
            yield json.loads(text)
    if data and data[0].strip() != DONE:  # the last piece, with nothing behind it
        yield json.loads("\n".join(data))


def _as_chunk(whole: dict[str, Any]) -> dict[str, Any]:
    """A reply that came at once, in the form of a piece."""
    choices = [{**choice, "delta": choice.get("message", {})} for choice in whole.get("choices", ())]
    return {**whole, "choices": choices}
