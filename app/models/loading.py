"""Loads a model in 4-bit, or says in a sentence why it can't; what is loaded comes with its facts and a measured report.

Order of things: resolve the name, judge the files, make (or find) the prepared checkpoint, load it, check that nothing is
missing, run one tiny forward so that bitsandbytes repacks its weights now and not at the first message. A checkpoint is only ever
saved before that forward: saving afterwards can corrupt both file and live model.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, TypeAlias

from app.errors import ModelDamaged
from app.garbage import importing
from app.models.catalogue import resolve
from app.models.describe import describe, round_trip_warning
from app.models.devices import cards_for, slow_dtype
from app.models.facts import ModelFacts
from app.models.honesty import four_bit_doubt
from app.models.measure import LoadReport, PeakMemory, Weights, weigh
from app.models.memory import hand_back
from app.models.options import LoadOptions
from app.models.preparation import Checkpoint, checkpoint_for
from app.models.quiet import hear, listening
from app.models.schemes import settled
from app.models.source import Source
from app.models.translate import translated
from app.models.watch import Watch
from app.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from app.native.library import Kernels

log = logging.getLogger(__name__)


def _never() -> None:
    """A model in this process is never lost."""


@dataclass(eq=False, slots=True)
class LoadedModel:
    """A model ready to answer, in evaluation mode. Give it to ``unload`` when it is no longer used.

    ``lost`` gives the reason why it can't compute any more: a process over which it was spread has ended.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    facts: ModelFacts
    report: LoadReport
    lost: Callable[[], str | None] = _never
    kernels: Kernels | None = None
    without_kernels: str = ""


Opener: TypeAlias = "Callable[[Path, LoadOptions, Watch], PreTrainedModel]"
"""Another way to open a folder that needs no quantizing: over several processes."""


def load_model(
    name: str,
    settings: Settings,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    cancelled: Event | None = None,
    options: LoadOptions | None = None,
    opener: Opener | None = None,
) -> LoadedModel:
    """Load ``name`` (builtin, hub id, folder or GGUF file). Only one load may run at a time in a process.

    Raises ModelNotFound, ModelDamaged, UnsupportedModel, OutOfMemory, ModelError or Cancelled; nothing half-written is left then.
    """
    options = options or LoadOptions()
    watch = _watch(progress, cancelled)
    started = time.monotonic()
    with importing:
        from app.models import libraries  # noqa: F401
    source = resolve(name)
    options = settled(options, source)
    with translated(source.label):
        with listening() as heard, PeakMemory(cards_for(options)) as peak:
            checkpoint, model, tokenizer, (kernels, without) = _ready(source, settings, options, watch, opener)
        weights = weigh(model)
        doubts = (
            round_trip_warning(tokenizer) or "",
            four_bit_doubt(model, weights.plain, options),
            slow_dtype(options),
        )
        for warning in (*checkpoint.notices, *doubts):
            hear(heard, warning)
        facts = describe(source, checkpoint.folder, model, tokenizer, options, checkpoint.origin)
    report = _report(weights, peak.nbytes, time.monotonic() - started, heard)
    return LoadedModel(model, tokenizer, facts, report, kernels=kernels, without_kernels=without)


def _ready(
    source: Source, settings: Settings, options: LoadOptions, watch: Watch, opener: Opener | None
) -> tuple[Checkpoint, PreTrainedModel, PreTrainedTokenizerBase, tuple[Kernels | None, str]]:
    """What takes long and can fail, in a frame of its own: an error lets go of what it holds."""
    checkpoint = checkpoint_for(source, settings, options, watch)
    model, tokenizer = _open(checkpoint, options, watch, opener)
    kernels = _with_kernels(model, settings)
    watch.step("Warming up")
    warm_up(model)
    return checkpoint, model, tokenizer, kernels


def _with_kernels(model: PreTrainedModel, settings: Settings) -> tuple[Kernels | None, str]:
    """The kernels that the model computes with from now on, or why there are none."""
    from app.models.kernel_layers import compute_with
    from app.native.build import NotBuilt
    from app.native.library import open_kernels

    if (processes := getattr(model, "tp_size", None) or 1) > 1:
        return None, f"not for a model spread over {processes} processes"
    if model.device.type != "cpu":
        return None, f"not for {model.device.type}"
    try:
        kernels = open_kernels(settings.cache)
    except NotBuilt as reason:
        log.warning("Without kernels: %s", reason)
        return None, str(reason)
    compute_with(model, kernels)
    return kernels, ""


def _report(weights: Weights, peak_bytes: int, seconds: float, warnings: list[str]) -> LoadReport:
    return LoadReport(
        resident_bytes=sum(weights.bytes_by_dtype.values()),
        bytes_by_dtype=dict(weights.bytes_by_dtype),
        share_4bit=_share(weights.parameters_4bit, weights.parameters),
        linear_share_4bit=_share(weights.linear_4bit, weights.linear),
        peak_bytes=peak_bytes,
        seconds=seconds,
        warnings=tuple(warnings),
    )


def prepare_model(
    name: str,
    settings: Settings,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    cancelled: Event | None = None,
    options: LoadOptions | None = None,
) -> Path:
    """Make the prepared checkpoint of ``name`` unless a valid one is there; returns its folder. Errors as load_model."""
    source = resolve(name)
    with translated(source.label), listening():
        return checkpoint_for(
            source, settings, settled(options or LoadOptions(), source), _watch(progress, cancelled)
        ).folder


def unload(loaded: LoadedModel) -> None:
    """Free a model's memory, and hand it back to the system where that can be asked for. The object is unusable afterwards."""
    del loaded.model, loaded.tokenizer
    hand_back()


def _watch(progress: Callable[[str, int, int], None] | None, cancelled: Event | None) -> Watch:
    watch = Watch() if progress is None else Watch(progress)
    return watch if cancelled is None else Watch(watch.progress, cancelled)


def _open(
    checkpoint: Checkpoint, options: LoadOptions, watch: Watch, opener: Opener | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import AutoTokenizer

    from app.models.opening import open_model

    watch.step("Reading the tokenizer")
    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
    except Exception as cause:
        raise ModelDamaged(f"The tokenizer in {checkpoint.folder} can't be read: {cause}") from cause
    with watch.follow("Loading the weights"):
        if opener:
            model = opener(checkpoint.folder, options, watch)
        else:
            model = open_model(checkpoint.folder, options, quantize=checkpoint.quantize_while_loading)
    return model, tokenizer


def warm_up(model: PreTrainedModel) -> None:
    """One forward of one token: bitsandbytes repacks every linear layer now (CPUs with AVX512-BF16), once and for all."""
    import torch

    first = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    more = {"decoder_input_ids": first} if model.config.is_encoder_decoder else {}
    with torch.inference_mode():
        model(input_ids=first, use_cache=False, **more)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
