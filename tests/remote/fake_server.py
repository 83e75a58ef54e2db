"""A small OpenAI-compatible server on this machine: it says what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

Json = dict[str, Any]
PATIENCE_S = 30


class Asked(BaseHTTPRequestHandler):
    """One request. ``answer`` functions of a test get it and use ``begin``, ``event``, ``done``, ``refuse``."""

    server: FakeServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers))
        if self.server.models is None:
            self.refuse(404, {"detail": "Not Found"})
        else:
            self.whole({"object": "list", "data": self.server.models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.headers.append(dict(self.headers))
        self.server.asked.append(body)
        self.server.arrived.set()
        try:
            self.server.answer(self, body)
        except ConnectionError:  # closed with something still on its way
            self.server.closed.set()
        self.close_connection = True

    def whole(self, value: Json, status: int = 200, kind: str = "application/json") -> None:
        """An answer in one piece."""
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def refuse(self, status: int, value: Json) -> None:
        """An error."""
        self.whole(value, status)

    def begin(self) -> None:
        """Start a stream."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, value: Json | str) -> None:
        """One piece of a stream."""
        text = value if isinstance(value, str) else json.dumps(value)
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def until_closed(self) -> bool:
        """Send nothing more, and wait for the other side to close; whether it did."""
        readable, _, _ = select.select([self.connection], [], [], PATIENCE_S)
        closed = bool(readable) and self.connection.recv(1) == b""
        if closed:
            self.server.closed.set()
        return closed

    def log_message(self, *args: Any) -> None:
        """Tests print nothing."""


Answer = Callable[[Asked, Json], None]


class FakeServer(ThreadingHTTPServer):
    """``asked``: bodies of chat completions, ``headers`` of all requests; ``closed``: a client has left in the middle."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.models: list[Json] | None = [{"id": "small", "object": "model", "owned_by": "somebody"}]
        self.answer: Answer = say("Hello", " there", ".")
        self.asked: list[Json] = []
        self.headers: list[Json] = []
        self.arrived, self.closed, self.gate = Event(), Event(), Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def be_vllm(self, context: int = 4096) -> None:
        self.models = [{"id": "org/small", "object": "model", "owned_by": "vllm", "max_model_len": context}]


@contextmanager
def serving() -> Iterator[FakeServer]:
    server = FakeServer()
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


def piece(text: str = "", index: int = 0, **more: Any) -> Json:
    """A chunk as the interface has it; ``more`` goes into the choice, ``delta`` replaces the text."""
    choice = {"index": index, "delta": {"content": text}, "finish_reason": None, **more}
    return {"id": "x", "object": "chat.completion.chunk", "model": "small", "choices": [choice]}


def ending(reason: str = "stop", index: int = 0, **more: Any) -> Json:
    return piece("", index, finish_reason=reason, **more)


USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}


def say(*pieces: str | Json, reason: str = "stop", usage: Json | None = USAGE, done: bool = True) -> Answer:
    """A reply of these texts or chunks, with a usual ending."""

    def answer(asked: Asked, _body: Json) -> None:
        asked.begin()
        for part in pieces:
            asked.event(piece(part) if isinstance(part, str) else part)
        if reason:
            asked.event(ending(reason))
        if usage is not None:
            asked.event({"choices": [], "usage": usage})
        if done:
            asked.event("[DONE]")

    return answer


def refuse(status: int, message: str = "no") -> Answer:
    return lambda asked, _body: asked.refuse(status, {"error": {"message": message, "type": "error"}})


def token(text: str, probability: float, *others: tuple[str, float]) -> Json:
    """An entry of ``logprobs.content``; the token itself is among the most probable ones."""
    from math import log

    def one(word: str, chance: float) -> Json:
        return {"token": word, "logprob": log(chance), "bytes": list(word.encode())}

    return {**one(text, probability), "top_logprobs": [one(text, probability), *(one(*other) for other in others)]}
