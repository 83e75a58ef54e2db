"""What the proofs stand on: tiny real models behind real engines, and a reply with everything a user could see of it.

Every parameter of the table has a test named ``test_<parameter>`` or ``test_<parameter>__<what it shows>`` in this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from app.conversation import FinishReason, Message, Role, RunStatus, new_id
from app.engine.encoding import encode
from app.engine.engine import Engine
from app.engine.events import Ended
from app.engine.inside import Inside
from app.engine.run import LiveRun, RunRequest
from app.models.loading import LoadedModel, load_model
from app.models.options import LoadOptions, Quantization
from app.settings import Settings
from tests.models.tiny import tiny_llama, tiny_t5, tiny_tokenizer

PLAIN: dict[str, Any] = {"seed": 1, "max_new_tokens": 12}
GREEDY: dict[str, Any] = {"temperature": 0}
PRECISE = Quantization("none", compute_dtype="float32")
UNSET = object()
"""Takes a setting of ``PLAIN`` away again."""
OPEN: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""Sampling from the model's own distribution: everything that narrows it is off."""


@dataclass(frozen=True)
class Reply:
    """A finished run."""

    live: LiveRun
    ended: Ended

    @property
    def ids(self) -> list[int]:
        return list(self.ended.run.output_ids)

    @property
    def prompt(self) -> list[int]:
        return list(self.ended.run.prompt_ids)

    @property
    def text(self) -> str:
        return self.ended.text

    @property
    def reason(self) -> FinishReason | None:
        return self.ended.run.finish_reason

    @property
    def status(self) -> RunStatus:
        return self.ended.run.status

    @property
    def error(self) -> str:
        return self.ended.run.error or ""

    @property
    def effective(self) -> dict[str, Any]:
        return dict(self.ended.run.effective)

    @property
    def explained(self) -> dict[str, Any]:
        return dict(self.ended.run.explained)

    @property
    def inside(self) -> Inside:
        return self.live.inside


@dataclass
class Lab:
    """An engine with a model in it."""

    engine: Engine
    loaded: LoadedModel

    def start(
        self, text: str = "hello there", *, prefix: str = "", continued: Reply | None = None, **asked: Any
    ) -> LiveRun:
        """Submit a reply to one message; what isn't asked for is ``PLAIN``."""
        conversation = new_id()
        question = Message(new_id(), conversation, None, Role.USER, text)
        more: dict[str, Any] = {"prefix_text": prefix}
        if continued:
            more = {
                "prefix_text": continued.text,
                "prefix_ids": tuple(continued.ids),
                "prompt_ids": tuple(continued.prompt),
            }
        requested = {name: value for name, value in (PLAIN | asked).items() if value is not UNSET}
        return self.engine.submit(
            RunRequest(new_id(), conversation, new_id(), messages=(question,), requested=requested, **more)
        )

    def ask(self, text: str = "hello there", **given: Any) -> Reply:
        """The reply, whatever became of it."""
        live = self.start(text, **given)
        return Reply(live, live.result(120))

    def reply(self, text: str = "hello there", **given: Any) -> Reply:
        """The reply of a run that came through."""
        made = self.ask(text, **given)
        assert made.status is RunStatus.DONE, made.error
        return made

    def encode(self, text: str) -> list[int]:
        return encode(self.loaded.tokenizer, text)

    def logits(self, ids: list[int]) -> torch.Tensor:
        """The model's own logits after each of these tokens: float32 [tokens, vocabulary]."""
        model: Any = self.loaded.model
        with torch.inference_mode():
            found: torch.Tensor = model(torch.tensor([ids])).logits[0].float()
        return found

    def log_probability(self, prompt: list[int], ids: list[int]) -> float:
        """The sum of the reply's log-probabilities."""
        rows = self.logits([*prompt, *ids])[len(prompt) - 1 : -1].log_softmax(-1)
        return float(rows[range(len(ids)), ids].sum())

    @property
    def eos(self) -> int:
        return self.loaded.facts.eos_token_ids[0]


class Shelf:
    """``Models`` that takes loaded models from a shelf and leaves them there."""

    def __init__(self, **models: LoadedModel) -> None:
        self.models = models

    def load(
        self,
        name: str,
        *,
        progress: Callable[[str, int, int], None],
        cancelled: Event,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        progress("Taking it from the shelf", 1, 1)
        return self.models[name]

    def unload(self, loaded: LoadedModel) -> None:
        del loaded


def laboratory(**models: LoadedModel) -> Iterator[Lab]:
    """An engine that has the first of these models loaded; the others can be loaded by their names."""
    engine = Engine(Shelf(**models), Settings(prefill_chunk=16, read_ahead=False))
    first = next(iter(models))
    assert engine.load(first).finished.wait(60)
    yield Lab(engine, models[first])
    engine.close()


def load(folder: Path, cache: Path, **options: Any) -> LoadedModel:
    return load_model(str(folder), Settings(cache=cache), options=LoadOptions(**options))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proof-models")


@pytest.fixture(scope="session")
def llama(folders: Path, shared_cache: Path) -> LoadedModel:
    return load(tiny_llama(folders / "llama"), shared_cache)


@pytest.fixture(scope="session")
def precise_llama(folders: Path, shared_cache: Path) -> LoadedModel:
    """The same weights in float32: other ways of computing the same give the same tokens."""
    return load(tiny_llama(folders / "llama-precise"), shared_cache, quantization=PRECISE)


@pytest.fixture(scope="session")
def eager_llama(folders: Path, shared_cache: Path) -> LoadedModel:
    """The same weights, loaded so that attention weights exist."""
    return load(tiny_llama(folders / "llama-eager"), shared_cache, attention="eager")


@pytest.fixture(scope="session")
def t5(folders: Path, shared_cache: Path) -> LoadedModel:
    return load(tiny_t5(folders / "t5"), shared_cache)


@pytest.fixture(scope="session")
def twin(folders: Path, shared_cache: Path) -> LoadedModel:
    """A draft with the main model's own weights: always right."""
    return load(tiny_llama(folders / "twin"), shared_cache)


@pytest.fixture(scope="session")
def stranger(folders: Path, shared_cache: Path) -> LoadedModel:
    """A draft with other weights: nearly always wrong."""
    return load(tiny_llama(folders / "stranger", seed=7), shared_cache)


@pytest.fixture(scope="session")
def foreigner(folders: Path, shared_cache: Path) -> LoadedModel:
    """A draft with a tokenizer of its own."""
    folder = tiny_llama(folders / "foreigner", seed=3, vocab_size=330)
    corpus = ["one two three four five six seven", "the lamp is under the table and the cat is on it"] * 4
    own: Any = tiny_tokenizer().train_new_from_iterator(corpus, 330)
    own.save_pretrained(folder)
    return load(folder, shared_cache)


@pytest.fixture(scope="session")
def lab(llama: LoadedModel) -> Iterator[Lab]:
    """The tiny llama alone."""
    yield from laboratory(llama=llama)


@pytest.fixture(scope="session")
def precise(precise_llama: LoadedModel) -> Iterator[Lab]:
    yield from laboratory(precise=precise_llama)


@pytest.fixture(scope="session")
def eager(eager_llama: LoadedModel) -> Iterator[Lab]:
    yield from laboratory(llama=eager_llama)


@pytest.fixture(scope="session")
def t5_lab(t5: LoadedModel) -> Iterator[Lab]:
    """An encoder–decoder model."""
    yield from laboratory(t5=t5)


class Forwards:
    """Counts and watches the forward passes of a model."""

    def __init__(self) -> None:
        self.count = 0
        self.caches: list[Any] = []
        self.lengths: list[int] = []

    def __call__(self, _module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        self.count += 1
        self.caches.append(kwargs.get("cache"))
        ids = kwargs.get("input_ids")
        self.lengths.append(0 if ids is None else ids.shape[1])


@pytest.fixture
def watch() -> Iterator[Callable[[LoadedModel], Forwards]]:
    """Watch a model's forward passes for the length of a test."""
    hooks = []

    def begin(loaded: LoadedModel) -> Forwards:
        seen = Forwards()
        hooks.append(loaded.model.register_forward_pre_hook(seen, with_kwargs=True))
        return seen

    yield begin
    for hook in hooks:
        hook.remove()
