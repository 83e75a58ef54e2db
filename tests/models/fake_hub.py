"""A hub on this machine that serves one folder as a repository: whole or in parts, gated, missing, or slow enough to be cancelled.

Only what huggingface_hub asks for: the repository's description, its tree, and files by range.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 100_000
"""Files from this size on are what the hub calls LFS: their etag is the SHA-256 of their content."""


@dataclass
class FakeHub:
    """``refusal``: a status and an X-Error-Code that answer everything. ``damaged``: a file that arrives with a wrong byte.
    ``breaks``: how many large files are yet to be broken off in the middle.

    ``asked`` records the name of each file that was sent, with the range asked for.
    """

    folder: Path
    repo: str = "someone/tiny"
    refusal: tuple[int, str] | None = None
    damaged: str = ""
    breaks: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    address: str = ""

    def description(self) -> dict[str, Any]:
        files = [{"rfilename": path.name, "size": path.stat().st_size} for path in sorted(self.folder.iterdir())]
        return {"id": self.repo, "modelId": self.repo, "sha": COMMIT, "siblings": files, "private": False, "tags": []}

    def tree(self) -> list[dict[str, Any]]:
        return [self.entry(path) for path in sorted(self.folder.iterdir())]

    def content(self, file: Path) -> bytes:
        whole = file.read_bytes()
        return whole[:-1] + bytes([whole[-1] ^ 1]) if file.name == self.damaged else whole

    def entry(self, path: Path) -> dict[str, Any]:
        size = path.stat().st_size
        found: dict[str, Any] = {"type": "file", "path": path.name, "size": size, "oid": etag(path)}
        if size >= LARGE:
            found["lfs"] = {"oid": etag(path), "size": size, "pointerSize": 130}
        return found


def etag(path: Path) -> str:
    """What names a file's content in the cache."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest() if len(content) >= LARGE else hashlib.sha1(content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    """Answers for the hub that ``serving`` gives it."""

    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""

    def _answer(self, *, body: bool) -> None:
        hub, path = self.hub, self.path.partition("?")[0]
        if body and not path.startswith("/api/"):
            hub.asked.append((path.rpartition("/")[2], self.headers.get("Range", "")))
        if hub.refusal:
            status, code = hub.refusal
            self._send(status, b"", {"X-Error-Code": code}, body=body)
        elif path.startswith(f"/api/models/{hub.repo}"):
            told = hub.tree() if "/tree/" in path else hub.description()
            self._send(200, json.dumps(told).encode(), {"Content-Type": "application/json"}, body=body)
        else:
            self._file(hub.folder / path.rpartition("/")[2], body=body)

    def _file(self, file: Path, *, body: bool) -> None:
        if not file.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body=body)
            return
        content = self.hub.content(file)
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag(file)}"', "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted:
            self._send(200, content, headers, body=body)
            return
        first, last = int(wanted[1]), int(wanted[2] or len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(206, content[first : last + 1], headers, body=body)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body and self.hub.breaks and len(content) >= LARGE:
            self.hub.breaks -= 1
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif body:
            with suppress(ConnectionError):  # a client that was cancelled
                self.wfile.write(content)


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """Within it the hub answers at its ``address``."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that was cancelled is no error."""
