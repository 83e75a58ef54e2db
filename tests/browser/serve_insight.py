"""Serves the page over a tiny real model, for the playground: ``python -m tests.browser.serve_insight --port PORT``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event

from app.chat import Chat
from app.conversation import Json
from app.engine.engine import Engine
from app.models.loading import LoadedModel, load_model
from app.models.options import LoadOptions, Quantization
from app.settings import Settings
from storage import open_store
from tests.models.tiny import tiny_ernie_moe, tiny_llama
from ui.serve import serve

TALKS = 7
"""Finished conversations to begin with, one for each test that changes something; the last has kept the model's inside."""
ASKED: dict[str, Json] = {
    "temperature": 1.0,
    "top_k": 8,
    "top_p": 0.999999,
    "min_p": 0.02,
    "max_new_tokens": 24,
    "min_new_tokens": 24,
}


class Tiny:
    """``Models`` that loads one tiny model, written where the test says or anew; TINY_FAMILY=ernie makes it a mixture of experts."""

    def load(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None],
        cancelled: Event,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        folder = Path(os.environ.get("TINY_MODEL") or tempfile.mkdtemp()) / "tiny"
        if not folder.exists():
            (tiny_ernie_moe if os.environ.get("TINY_FAMILY") == "ernie" else tiny_llama)(folder)
        return load_model(
            str(folder), Settings(), options=LoadOptions(quantization=Quantization("none", compute_dtype="float32"))
        )

    def unload(self, loaded: LoadedModel) -> None:
        del loaded


if __name__ == "__main__":
    settings = Settings(port=int(sys.argv[sys.argv.index("--port") + 1]), prefill_chunk=16)
    store = open_store(settings.home)
    store.interrupt_orphans()
    chat = Chat(store, Engine(Tiny(), settings), settings)
    assert chat.engine.load("tiny").finished.wait(120)
    if not store.conversations().hits:
        for talk in range(TALKS):
            inside: dict[str, Json] = {"output_hidden_states": True, "output_logits": True} if talk == TALKS - 1 else {}
            chat.wait_until_kept(chat.send(f"talk {talk}", requested=ASKED | inside | {"seed": talk}).run.id)
    serve(chat, settings, open_browser=False)
