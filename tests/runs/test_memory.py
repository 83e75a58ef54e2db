"""Memory really comes back after an unload, and what is kept of prompts stays below its bound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from app.chat import Chat
from app.engine.engine import Engine
from app.settings import Settings
from storage import open_store
from tests.engine.conftest import OneModel

MODEL_MIB = 100
"""The built-in model's weights."""
SLACK_MIB = 40
"""What an allocator may keep for itself."""


def test_unloading_gives_the_memory_back(shared_cache: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.runs.weigh"], stdout=subprocess.PIPE, check=True, text=True)
    (loaded, freed), (loaded_again, freed_again) = json.loads(done.stdout)
    assert loaded - freed > MODEL_MIB
    assert loaded_again - freed_again > MODEL_MIB
    assert freed_again < freed + SLACK_MIB


def test_kept_prompts_stay_below_their_bound_and_the_latest_is_still_reused(fader_home: Path, models: OneModel) -> None:
    settings = Settings(home=fader_home, prefill_chunk=16, prefix_cache_mb=1)
    chat = Chat(open_store(fader_home), Engine(models, settings), settings)
    try:
        assert chat.engine.load("tiny").finished.wait(60)
        cache, most = chat.engine.held.blocks, 0
        for number in range(12):
            started = chat.send(f"{number} " + "word " * 150, requested={"max_new_tokens": 2, "seed": 1})
            assert started.run.result(60).run.error is None
            held = sum(t.nbytes for layers in cache._blocks.values() for pair in layers for t in pair)
            assert held == cache.used_bytes <= 2**20
            most = max(most, held)
        assert most > 2**19, "the bound was never near"
        again = chat.regenerate(started.reply.id, requested={"max_new_tokens": 2, "seed": 2}).run.result(60)
        assert again.run.stats.reused_tokens > 300
    finally:
        chat.close()
