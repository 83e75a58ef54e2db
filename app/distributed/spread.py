"""Loads models over several processes. One group of processes serves all models; it starts with the first and ends with the last."""

from __future__ import annotations

import atexit
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from app.distributed.joining import join_torchrun, start, torchrun_rank
from app.distributed.messages import Close, Open
from app.distributed.plan import UNQUANTIZED, check_spread
from app.errors import ModelError, ProcessLost
from app.models.catalogue import resolve
from app.models.options import LoadOptions, Quantization

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from threading import Event

    from transformers import PreTrainedModel

    from app.distributed.group import Group
    from app.models.loading import LoadedModel
    from app.models.watch import Watch
    from app.settings import Settings

PATIENCE = timedelta(minutes=5)
"""How long the other processes may go on loading after this one has failed or was stopped."""


class Spread:
    """Used by the engine's thread only, in the first process."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._group: Group | None = None
        self._open: dict[int, int] = {}

    def load(
        self,
        name: str,
        settings: Settings,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Event | None = None,
        options: LoadOptions | None = None,
    ) -> LoadedModel:
        """Load a model in 16 bits (or 32, as ``options`` say) over all processes. Raises as ``load_model`` does, and RefusedInput for
        one that can't be spread over so many."""
        from app.models.loading import load_model

        asked = (options or LoadOptions()).quantization.compute_dtype
        plain = replace(options or LoadOptions(), quantization=Quantization("none", compute_dtype=asked))
        before = set(self._open)
        try:
            loaded = load_model(
                name,
                settings,
                progress=progress,
                cancelled=cancelled,
                options=plain,
                opener=partial(self._opened, resolve(name).label),
            )
        except BaseException:
            for key in set(self._open) - before:  # opened, and then something else was wrong
                self._close(self._open.pop(key))
            self._end_if_unused()
            raise
        return self._described(loaded, asked)

    def _described(self, loaded: LoadedModel, dtype: str) -> LoadedModel:
        facts, report, group = loaded.facts, loaded.report, self._group
        assert group is not None  # noqa: S101  (it has just loaded)
        loaded.facts = replace(
            facts,
            processes=self._size,
            fingerprint={**facts.fingerprint, "tensor_parallel": self._size},
        )
        loaded.report = replace(report, warnings=(UNQUANTIZED.format(size=self._size, dtype=dtype), *report.warnings))
        loaded.lost = lambda: group.lost
        return loaded

    def _opened(self, label: str, folder: Path, options: LoadOptions, watch: Watch) -> PreTrainedModel:
        """This process's part of the model, leading the others' parts."""
        from transformers import AutoConfig

        from app.distributed.leading import lead

        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        check_spread(config, label, self._size, options.device)
        group = self._group = self._group or self._started(watch)
        number = group.number()
        model = self._together(group, number, folder, options)
        lead(model, group, number)
        self._open[id(model)] = number
        return model

    def _started(self, watch: Watch) -> Group:
        if torchrun_rank() is None:
            return start(self._size, watch)
        from app.distributed.channel import Channel
        from app.distributed.group import Group

        join_torchrun(self._size)
        group = Group(Channel())
        atexit.register(group.close)
        return group

    def _together(self, group: Group, number: int, folder: Path, options: LoadOptions) -> PreTrainedModel:
        """Load here and in the others at the same time; a load that fails anywhere is undone everywhere."""
        from app.models.opening import open_model

        group.tell(Open(number, str(folder), options))
        model, mine, patience = None, None, {}  # type: PreTrainedModel | None, Exception | None, dict[str, timedelta]
        try:
            model = open_model(folder, options, quantize=False, processes=self._size)
        except Exception as error:  # noqa: BLE001  (raised again below, once the others have come to their end too)
            mine, patience = error, {"patience": PATIENCE}
        with group.computing():
            theirs = group.reports(**patience)
        if model is not None and not theirs:
            return model
        group.tell(Close(number))
        self._end_if_unused()
        raise mine or ModelError(f"Another process could not load its part of {folder.name}: {theirs[0]}")

    def unload(self, loaded: LoadedModel) -> None:
        """Free a model everywhere; with the last one the processes end."""
        from app.models.loading import unload

        number = self._open.pop(id(loaded.model), None)
        unload(loaded)
        if number is not None:
            self._close(number)
        self._end_if_unused()

    def _close(self, number: int) -> None:
        if self._group is not None:
            with suppress(ProcessLost):  # then its memory is free already
                self._group.tell(Close(number))

    def _end_if_unused(self) -> None:
        """Processes that were started here end with the last model; those of torchrun can't be started again, and stay."""
        if self._group is not None and self._group.pids and (self._group.lost or not self._open):
            self._group.close()
            self._group, self._open = None, {}
