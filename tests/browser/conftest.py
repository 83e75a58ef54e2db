"""A real server in a process of its own and a real Chromium, both for this folder only (Playwright keeps an event loop running
that other tests would stumble over); each test has a fresh browser profile.

Every test fails at its end if the page asked anybody but its server for anything, raised an error, or logged one.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ROOT = Path(__file__).parents[2]
PATIENCE_MS = 20_000
"""How long a busy machine may take to show what a test waits for."""


SERVER_GONE = ("Failed to load resource", "ERR_", "fetch", "network error", "Connection", "Unexpected end of")
"""What Chromium and Gradio say of requests, open ones too, to a server that was stopped."""


@dataclass
class Server:
    """A page served by a child process on a data folder; can be killed and started again at the same address."""

    home: Path
    module: str = "tests.browser.serve_fake"
    arguments: tuple[str, ...] = ()
    address: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        port = self.address.rstrip("/").rpartition(":")[2] or str(free_port())
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module, *self.arguments, "--port", port],
            cwd=ROOT,
            env={**os.environ, "FADER_HOME": str(self.home), "PYTHONUNBUFFERED": "1", **self.environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("Fader is at "):
                self.address = line.removeprefix("Fader is at ").strip()
                return
        self._process.stdout.close()
        message = f"the server ended with {self._process.wait()} before it answered"
        raise RuntimeError(message)

    def stop(self, *, kill: bool = False) -> None:
        assert self._process
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGINT)
        self._process.wait(20)
        assert self._process.stdout
        self._process.stdout.close()


def free_port() -> int:
    """A port that nobody listens on, anywhere in the range, because other runs of these tests look for one too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.stop(kill=True)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that most tests share: a scripted engine over a real store."""
    with serving(Server(tmp_path_factory.mktemp("browser-home"))) as running:
        yield running


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of this test's own, to be restarted or killed."""
    with serving(Server(tmp_path)) as running:
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium as the system has it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("the browser tests need Chromium on the PATH (Debian: apt-get install chromium)")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@dataclass
class Watch:
    """What a page did that it shouldn't; ``expected`` are words of messages that a test provokes."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    # Gradio logs its own requests that a reload or a closed tab cuts short.
    CUT_SHORT = ("AbortError: signal is aborted", "Connection errored out")

    def look_at(self, page: Page, address: Callable[[], str]) -> None:
        def request(request: Request) -> None:
            if not request.url.startswith((address(), "data:", "blob:")):
                self.outside.append(request.url)

        def console(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.errors.append(message.text)

        page.on("request", request)
        page.on("console", console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(word in error for word in (*self.expected, *self.CUT_SHORT))]


@pytest.fixture
def watch() -> Watch:
    """Filled while a test runs; a test that provokes an error says so in ``expected``."""
    return Watch()


NewPage = Callable[..., Page]


@pytest.fixture
def new_page(browser: Browser, watch: Watch) -> Iterator[NewPage]:
    """Opens a page of a server, by default in a profile of its own; ``beside`` opens another tab of that page's profile."""
    with ExitStack() as stack:

        def make(
            server: Server,
            path: str = "",
            *,
            beside: Page | None = None,
            width: int = 1280,
            expected: tuple[str, ...] = (),
        ) -> Page:
            watch.expected += expected
            context: BrowserContext = (
                beside.context
                if beside
                else browser.new_context(viewport={"width": width, "height": 800}, reduced_motion="reduce")
            )
            if not beside:
                stack.callback(context.close)
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            watch.look_at(page, lambda: server.address)
            page.goto(server.address + path)
            page.wait_for_selector("body.fader-ready")
            return page

        yield make
        assert watch.outside == [], "the page asked others"
        assert watch.unexpected() == [], "the page raised or logged errors"


@pytest.fixture
def page(new_page: NewPage, server: Server) -> Page:
    """A fresh page of the shared server."""
    return new_page(server)
