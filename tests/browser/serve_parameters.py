"""The page over a scripted engine with a tokenizer to ask: ``python -m tests.browser.serve_parameters --port PORT``.

Loading the model "small" gives one with a shorter context and sampling settings of its own.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from app.chat import Chat
from app.engine.desk import Desk
from app.engine.engine import ModelStatus
from app.settings import Settings
from storage import open_store
from tests.models.tiny import tiny_tokenizer
from tests.ui.fakes import FACTS, FakeEngine
from ui.serve import serve

TOKENIZER = tiny_tokenizer()
LARGE = replace(FACTS, vocab_size=len(TOKENIZER), eos_token_ids=(TOKENIZER.convert_tokens_to_ids("<|im_end|>"),))
SMALL = replace(LARGE, name="small", label="Small", context_length=256, generation_defaults={"temperature": 0.6, "top_k": 20})


class Engine(FakeEngine):
    """Two models to choose from."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(TOKENIZER, LARGE)
        self.model = ModelStatus("ready", "fake", LARGE)

    def load(self, name: str) -> None:
        self.model = ModelStatus("ready", name, SMALL if name == "small" else LARGE)


if __name__ == "__main__":
    settings = Settings(port=int(sys.argv[sys.argv.index("--port") + 1]))
    serve(Chat(open_store(settings.home), Engine(), settings), settings, open_browser=False)
