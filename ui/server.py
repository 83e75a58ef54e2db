"""The web server's application: Gradio's page, Fader's own small routes, and the guard in front of both."""

from __future__ import annotations

import os

from fastapi import FastAPI

from app.chat import Chat
from app.conversation import Json
from app.settings import Settings
from ui import (
    api_compare,
    api_conversations,
    api_copies,
    api_errors,
    api_inside,
    api_insight,
    api_messages,
    api_model,
    api_parameters,
    api_presets,
    api_routing,
    api_runs,
    api_transfer,
    guard,
    static,
)
from ui.trimmed_gradio import trim

os.environ["GRADIO_ANALYTICS_ENABLED"] = (
    "False"  # Gradio reads it when it is imported, and then asks nobody on the network
)
trim()


def create_app(chat: Chat, settings: Settings) -> FastAPI:
    """Everything behind one address. Raises RefusedInput when the settings would let strangers in without a password."""
    from ui.page import mount

    return mount(create_api(chat, settings), chat, settings)


def create_api(chat: Chat, settings: Settings) -> FastAPI:
    """The routes and the guard without the page. Raises RefusedInput as ``create_app`` does."""
    app = FastAPI(title="Fader", docs_url=None, redoc_url=None, openapi_url=None)
    api_errors.install(app)
    guard.install(app, settings, assets=[static.address(name) for name in static.contents()])

    @app.get("/healthz")
    def health() -> Json:
        return {"status": "ok", "model": chat.engine.status().name}

    for routes in (
        api_runs.router(chat),
        api_insight.router(chat),
        api_compare.router(chat),
        api_inside.router(chat),
        api_routing.router(chat),
        api_conversations.router(chat),
        api_messages.router(chat),
        api_model.router(chat),
        api_copies.router(chat),
        api_transfer.router(chat),
        api_parameters.router(chat),
        api_presets.router(chat),
        static.router(),
    ):
        app.include_router(routes)
    return app
