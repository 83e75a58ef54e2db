"""A page's way of following a reply, in a process of its own: ``python -m bench.reader ADDRESS RUN``.

Prints, when the run has ended, one JSON list of ``[number of the last event seen, time it was seen]``, times of the monotonic clock that
all processes of a machine share.
"""

from __future__ import annotations

import http.client
import json
import sys
import time

UPDATE_S, WAIT_S = 0.03, 0.25
"""As the page does: at most one update in so long, and an answer held back so long when there is nothing new."""


def follow(address: str, run_id: str) -> list[tuple[int, float]]:
    """Poll until the end."""
    connection = http.client.HTTPConnection(address)
    seen: list[tuple[int, float]] = []
    number, done = 0, False
    while not done:
        began = time.monotonic()
        connection.request("GET", f"/api/runs/{run_id}?after={number}&wait={WAIT_S}")
        view = json.loads(connection.getresponse().read())
        number, done = view["seq"], view["done"]
        seen.append((number, time.monotonic()))
        time.sleep(max(0.0, UPDATE_S - (time.monotonic() - began)))
    return seen


if __name__ == "__main__":
    print(json.dumps(follow(*sys.argv[1:])))
