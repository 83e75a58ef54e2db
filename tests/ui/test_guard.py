"""Other sites and other people stay out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.chat import Chat
from app.errors import RefusedInput
from app.settings import Settings
from ui import static
from ui.guard import COOKIE, check_exposure
from ui.serve import listening_socket
from ui.server import create_api


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:7860", "localhost:7860", "LOCALHOST", "[::1]:7860"])
def test_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0"]
)
@pytest.mark.parametrize("path", ["/healthz", "/", "/api/conversations", "/anything", static.address("main.js")])
def test_other_names_are_refused(client: TestClient, host: str, path: str) -> None:
    assert client.get(path, headers={"Host": host}).status_code == 421


def test_changes_need_the_header_that_other_sites_cannot_send(client: TestClient) -> None:
    del client.headers["X-Fader"]
    assert client.post("/api/conversations/trash", json={"ids": ["x"]}).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999"])
@pytest.mark.parametrize("path", ["/api/conversations/trash", "/gradio_api/queue/join", "/login"])
def test_requests_from_other_sites_are_refused(client: TestClient, origin: str, path: str) -> None:
    assert client.post(path, json={}, headers={"Origin": origin}).status_code == 403


def test_the_page_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/nonesuch", "/healthz", static.address("style.css")):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "connect-src 'self'" in policy
    assert "http" not in client.get(static.address("style.css")).text.replace("http-equiv", "")


def settings(**changes: Any) -> Settings:
    return Settings.model_validate({**Settings().model_dump(), **changes})


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_no_other_machine_without_a_password(chat: Chat, host: str) -> None:
    with pytest.raises(RefusedInput, match="FADER_PASSWORD"):
        create_api(chat, settings(host=host))
    check_exposure(settings(host=host, password=SecretStr("long enough")))


@pytest.fixture
def locked(chat: Chat) -> Iterator[TestClient]:
    app = create_api(chat, settings(password=SecretStr("open sesame")))
    with TestClient(app, base_url="http://127.0.0.1:7860", follow_redirects=False, headers={"X-Fader": "1"}) as client:
        yield client


@pytest.mark.parametrize("path", ["/api/conversations", "/gradio_api/info", "/config", "/api/model"])
def test_everything_asks_for_the_password(locked: TestClient, path: str) -> None:
    assert locked.get(path).status_code == 401


def test_the_page_leads_to_the_log_in(locked: TestClient) -> None:
    answer = locked.get("/", headers={"Accept": "text/html"})
    assert answer.headers["location"] == "/login"
    assert "Password" in locked.get("/login").text
    assert locked.get(static.address("style.css")).status_code == 200


def test_the_right_password_opens_and_a_wrong_one_does_not(locked: TestClient) -> None:
    wrong = locked.post("/login", data={"password": "guess"})
    assert (wrong.status_code, COOKIE in wrong.cookies) == (403, False)
    assert "not the password" in wrong.text
    right = locked.post("/login", data={"password": "open sesame"})
    assert right.status_code == 303
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert locked.get("/api/conversations").status_code == 200


def test_a_forged_session_is_refused(locked: TestClient) -> None:
    locked.cookies.set(COOKIE, "forged")
    assert locked.get("/api/conversations").status_code == 401


def test_a_taken_port_gives_the_next_free_one() -> None:
    with listening_socket("127.0.0.1", 0) as probe:
        taken = probe.getsockname()[1]
        with listening_socket("127.0.0.1", taken) as other:
            assert other.getsockname()[1] > taken


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(RefusedInput):
        listening_socket("nonesuch.invalid", 7860)
