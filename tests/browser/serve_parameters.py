"""The page over a scripted engine with a tokenizer to ask: ``python -m tests.browser.serve_parameters --port PORT``.

Loading the model "small" gives one with a shorter context and sampling settings of its own.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import cast

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from app.chat import Chat
from app.engine.desk import Desk
from app.engine.engine import Engine as RealEngine
from app.engine.engine import ModelStatus
from app.models.options import LoadOptions
from app.settings import Settings
from storage import open_store
from tests.ui.fakes import FACTS, FakeEngine
from ui.serve import serve


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A token for each byte, and one that ends a turn."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>")


TOKENIZER = byte_tokenizer()
LARGE = replace(FACTS, vocab_size=len(TOKENIZER), eos_token_ids=(len(TOKENIZER) - 1,))
SMALL = replace(
    LARGE, name="small", label="Small", context_length=256, generation_defaults={"temperature": 0.6, "top_k": 20}
)


class Engine(FakeEngine):
    """Two models to choose from."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(TOKENIZER, LARGE)
        self.model = ModelStatus("ready", "fake", LARGE)

    def load(self, name: str, options: LoadOptions | None = None) -> None:
        self.model = ModelStatus("ready", name, SMALL if name == "small" else LARGE)


if __name__ == "__main__":
    settings = Settings(port=int(sys.argv[sys.argv.index("--port") + 1]))
    chat = Chat(open_store(settings.home), cast(RealEngine, Engine()), settings)
    serve(chat, settings, open_browser=False)
