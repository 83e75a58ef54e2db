"""Serves the page over the real model service and a tiny model: ``python -m tests.browser.serve_models --port PORT``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from app.chat import Chat
from app.engine.engine import Engine
from app.models.service import ModelService
from app.settings import Settings
from storage import open_store
from tests.models.tiny import tiny_llama
from ui.serve import serve

if __name__ == "__main__":
    folder = Path(os.environ["TINY_MODEL"]) / "tiny"
    if not folder.exists():
        tiny_llama(folder)
    settings = Settings(port=int(sys.argv[sys.argv.index("--port") + 1]), model=str(folder), prefill_chunk=16)
    store = open_store(settings.home)
    store.interrupt_orphans()
    chat = Chat(store, Engine(ModelService(settings), settings), settings)
    assert chat.engine.load(settings.model).finished.wait(120)
    serve(chat, settings, open_browser=False)
