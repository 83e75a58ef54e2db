"""When memory doesn't hold two models: the previous one is freed first where that helps, and comes back if the load fails then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event

import pytest

from app.conversation import RunStatus
from app.engine.engine import Engine
from app.errors import Cancelled, ModelDamaged, OutOfMemory
from app.models.loading import LoadedModel
from app.models.options import LoadOptions
from app.settings import Settings
from tests.engine.conftest import request_for

TOO_MUCH = 1 << 60


@dataclass
class Cramped:
    """Memory for one model: a second load is refused until the first is unloaded. ``missing``: what the refusal says is missing."""

    loaded: LoadedModel
    missing: int | None = 1
    fails: Exception | None = None
    held: bool = False
    cancelling: bool = False
    happened: list[str] = field(default_factory=list)

    def load(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None],
        cancelled: Event,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        if self.held:
            self.happened.append(f"refused {name}")
            raise OutOfMemory(f"{name} was not loaded. Doesn’t fit.", self.missing)
        if name == "next" and self.cancelling:
            cancelled.set()
            raise Cancelled("Loading the model was cancelled.")
        if name == "next" and self.fails:
            raise self.fails
        self.happened.append(f"loaded {name}")
        self.held = True
        return self.loaded

    def unload(self, loaded: LoadedModel) -> None:
        self.happened.append("unloaded")
        self.held = False


@pytest.fixture
def cramped(tiny: LoadedModel) -> Cramped:
    return Cramped(tiny)


@pytest.fixture
def engine(cramped: Cramped) -> Iterator[Engine]:
    made = Engine(cramped, Settings(prefill_chunk=16, read_ahead=False))
    assert made.load("first").finished.wait(60)
    yield made
    made.close()


@pytest.mark.parametrize("missing", [1, None])
def test_the_previous_model_is_freed_when_that_makes_room(
    engine: Engine, cramped: Cramped, missing: int | None
) -> None:
    cramped.missing = missing
    job = engine.load("next")
    assert job.finished.wait(60)
    assert job.error is None
    assert cramped.happened == ["loaded first", "refused next", "unloaded", "loaded next"]
    assert (engine.status().state, engine.status().name) == ("ready", "next")


def test_it_stays_when_its_memory_would_not_be_enough(engine: Engine, cramped: Cramped) -> None:
    cramped.missing = TOO_MUCH
    job = engine.load("next")
    assert job.finished.wait(60)
    assert "Doesn’t fit" in str(job.error)
    assert cramped.happened == ["loaded first", "refused next"]
    status = engine.status()
    assert (status.state, status.name) == ("ready", "first")
    assert "The previous model is still in use" in status.detail
    assert engine.submit(request_for()).result(60).run.status is RunStatus.DONE


def test_if_the_load_fails_then_its_absence_is_said_and_the_next_message_brings_it_back(
    engine: Engine, cramped: Cramped
) -> None:
    cramped.fails = ModelDamaged("next is incomplete: 1 of 2 shards missing.")
    job = engine.load("next")
    assert job.finished.wait(60)
    status = engine.status()
    assert status.state == "failed"
    assert "shards missing" in status.detail
    assert "first was unloaded to make room; it loads again with your next message" in status.detail
    assert engine.loaded is None
    assert engine.submit(request_for()).result(60).run.status is RunStatus.DONE
    assert engine.status().name == "first"


def test_a_load_cancelled_after_that_says_so_too(engine: Engine, cramped: Cramped) -> None:
    cramped.cancelling = True
    job = engine.load("next")
    assert job.finished.wait(60)
    status = engine.status()
    assert status.state == "none"
    assert status.detail == (
        "Loading next was cancelled. first was unloaded to make room; it loads again with your next message."
    )
    assert engine.submit(request_for()).result(60).run.status is RunStatus.DONE


def test_a_message_that_names_another_model_makes_room_as_well(engine: Engine, cramped: Cramped) -> None:
    assert engine.submit(request_for(model="next")).result(60).run.status is RunStatus.DONE
    assert cramped.happened == ["loaded first", "refused next", "unloaded", "loaded next"]
