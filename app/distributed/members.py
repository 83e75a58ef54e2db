"""The other processes of a group as the operating system knows them: started, watched, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import app

if TYPE_CHECKING:
    from collections.abc import Callable

READY = "ready"
"""The line with which a process says that it can join."""

SECONDS_TO_END = 10
_ROOT = Path(app.__file__).parents[1]


class Member:
    """Process ``rank`` of ``size``. It ends with its standard input, which this process holds: whatever happens here, none is left over.

    ``ended`` is set when it is gone; ``on_end`` is then told.
    """

    def __init__(self, rank: int, size: int, meeting: Path, threads: int) -> None:
        self.rank, self.size = rank, size
        self.ready, self.ended = Event(), Event()
        self.on_end: Callable[[Member], None] | None = None
        self._log = meeting.parent / f"process-{rank}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  (this very program)
                [sys.executable, "-m", "app.distributed.follower", str(meeting)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(rank, size, threads),
                start_new_session=True,  # Ctrl-C is for the first process, which ends the others in order
            )
        Thread(target=self._watch, name=f"fader-process-{rank}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process's number in the system."""
        return self._process.pid

    def _watch(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        if self._process.stdout.readline().strip() == READY:
            self.ready.set()
        self._process.wait()
        self.ended.set()
        if self.on_end:
            self.on_end(self)

    @property
    def obituary(self) -> str:
        """How it ended, as a sentence."""
        code = self._process.returncode
        if code is not None and code < 0:
            how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        else:
            how = f"ended with exit code {code}: {self._last_words()}"
        return f"Process {self.rank + 1} of {self.size}, over which the model is spread, {how}."

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
            return lines[-1].rstrip(".") if lines else "it said nothing"
        return "it said nothing"

    def kill(self) -> None:
        """End it at once."""
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Let it end, and see to it that it does."""
        with suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        if not self.ended.wait(SECONDS_TO_END):
            self.kill()
            self.ended.wait(SECONDS_TO_END)
        if self._process.stdout:
            self._process.stdout.close()


def _environment(rank: int, size: int, threads: int) -> dict[str, str]:
    """This process's, and what tells the other one its place. The names are torchrun's."""
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **os.environ,
        "PYTHONPATH": path,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "OMP_NUM_THREADS": str(threads),
    }
