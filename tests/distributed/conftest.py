"""The same tiny models in one process and spread over two, computing in float32, where another order of sums can't change a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app.distributed.spread import Spread
from app.engine.engine import Engine
from app.models.loading import LoadedModel, load_model, unload
from app.models.options import LoadOptions, Quantization
from app.settings import Settings

EXACT = LoadOptions(quantization=Quantization("none", compute_dtype="float32"))
FEW = 16
"""Tokens a block of the prefix cache has, so that short prompts have some."""


@dataclass
class Plain:
    """``Models`` of one process."""

    settings: Settings

    def load(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None],
        cancelled: Event,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        return load_model(name, self.settings, progress=progress, cancelled=cancelled, options=EXACT)

    def unload(self, loaded: LoadedModel) -> None:
        unload(loaded)


@dataclass
class InTwo:
    """``Models`` spread over two processes."""

    settings: Settings
    spread: Spread = field(default_factory=lambda: Spread(2))

    def load(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None],
        cancelled: Event,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        return self.spread.load(name, self.settings, progress=progress, cancelled=cancelled, options=EXACT)

    def unload(self, loaded: LoadedModel) -> None:
        self.spread.unload(loaded)

    @property
    def others(self) -> tuple[int, ...]:
        """The numbers of the other processes."""
        group = self.spread._group
        return group.pids if group else ()


def started(models: Any, shared_cache: Path) -> Engine:
    return Engine(models, Settings(cache=shared_cache, prefill_chunk=FEW, read_ahead=False))


@pytest.fixture(scope="module")
def one(shared_cache: Path) -> Iterator[Engine]:
    engine = started(Plain(Settings(cache=shared_cache)), shared_cache)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def in_two(shared_cache: Path) -> InTwo:
    return InTwo(Settings(cache=shared_cache))


@pytest.fixture(scope="module")
def two(in_two: InTwo, shared_cache: Path) -> Iterator[Engine]:
    engine = started(in_two, shared_cache)
    yield engine
    with suppress(Exception):
        engine.close()


def use(engine: Engine, folder: Path) -> None:
    """Have a model loaded."""
    if engine.status().name != str(folder):
        job = engine.load(str(folder))
        assert job.finished.wait(240)
        assert job.error is None, job.error
