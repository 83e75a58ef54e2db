"""The first script stands before everything that Gradio loads, and nothing but the page is touched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.testclient import TestClient

from ui import static
from ui.first_script import FirstScript

PAGE = f'<!doctype html><html><head><script src="theirs.js"></script></head><body>{"ü" * 2_000}</body></html>'


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = FastAPI()

    @app.get("/")
    def page(login: bool = False) -> Response:
        return RedirectResponse("/login") if login else HTMLResponse(PAGE)

    @app.get("/other")
    def other() -> HTMLResponse:
        return HTMLResponse(PAGE)

    app.add_middleware(GZipMiddleware)
    app.add_middleware(FirstScript)
    with TestClient(app, follow_redirects=False) as client:
        yield client


@pytest.mark.parametrize("encodings", ["identity", "gzip, br"])
def test_it_comes_before_every_other_script_also_where_answers_are_packed(client: TestClient, encodings: str) -> None:
    answer = client.get("/", headers={"Accept-Encoding": encodings})
    ours = f'<script src="{static.address("first.js")}"></script>'
    assert answer.text == PAGE.replace("<head>", "<head>" + ours)
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_other_answers_are_as_they_were(client: TestClient) -> None:
    assert client.get("/other").text == PAGE
    assert client.get("/?login=1").headers["location"] == "/login"
