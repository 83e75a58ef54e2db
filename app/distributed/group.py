"""The processes that compute one model together, as the first of them sees it: it talks to the others, and notices when one is gone.

A group that has lost a process is lost as a whole: its model can't compute any more, and the remaining processes are ended.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event
from typing import TYPE_CHECKING

from app.distributed.messages import End, Forget
from app.errors import ProcessLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from app.distributed.channel import Channel
    from app.distributed.members import Member

AGAIN = "The model was unloaded; it loads again with your next message."
BY_TORCHRUN = "torchrun started these processes: start it again."
SECONDS_TO_NOTICE = 2.0
"""A connection breaks a moment before the system reports the process's death."""


class Group:
    """``lost`` is the reason why the group can't compute any more, as a sentence for the user; ``broken`` is set once there is one."""

    def __init__(
        self, channel: Channel, members: Sequence[Member] = (), clean_up: Callable[[], None] | None = None
    ) -> None:
        self.lost: str | None = None
        self.broken = Event()
        self.forgotten: deque[int] = deque()
        self._channel = channel
        self._members = members
        self._clean_up = clean_up
        self._numbers = count(1)
        self._closing = False
        for member in members:
            member.on_end = self._ended

    @property
    def size(self) -> int:
        """Processes, this one included."""
        return self._channel.size

    @property
    def pids(self) -> tuple[int, ...]:
        """The other processes that were started here."""
        return tuple(member.pid for member in self._members)

    def number(self) -> int:
        """A new number for a model or a cache."""
        return next(self._numbers)

    def tell(self, message: object) -> None:
        """Have all others carry out a message. Raises ProcessLost."""
        with self.computing():
            if self.forgotten:
                gone = tuple(self.forgotten.popleft() for _ in range(len(self.forgotten)))
                self._channel.tell(Forget(gone))
            self._channel.tell(message)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Around everything that needs all processes: an exception there loses the group, since the others may now wait for ever.

        Raises ProcessLost.
        """
        if self.lost:
            raise ProcessLost(self.lost)
        try:
            yield
        except Exception as error:
            raise ProcessLost(self._lose(error)) from error

    def reports(self, **patience: timedelta) -> list[str]:
        """What went wrong in the others at what they were told last (see ``Channel.reports``)."""
        return self._channel.reports(**patience)

    def _lose(self, error: Exception) -> str:
        for member in self._members:
            if member.ended.wait(SECONDS_TO_NOTICE):
                self.fail(member.obituary)
        self.fail(f"The model stopped computing: {type(error).__name__}: {error}.")
        return str(self.lost)

    def _ended(self, member: Member) -> None:
        if not self._closing:
            self.fail(member.obituary)

    def fail(self, reason: str) -> None:
        """The group is lost (the first reason counts): end the other processes, and whatever this one waits for."""
        if self.lost is None:
            self.lost = f"{reason} {AGAIN if self._members else BY_TORCHRUN}"
            self.broken.set()
        for member in self._members:
            member.kill()
        _abort()

    def close(self) -> None:
        """End the other processes and give back what the group holds."""
        self._closing = True
        if not self.lost:
            with suppress(ProcessLost):
                self.tell(End())
        for member in self._members:
            member.close()
        _leave()
        if self._clean_up:
            self._clean_up()


def _abort() -> None:
    """A sum on graphics cards doesn't notice by itself that its partner is gone; on CPUs the broken connection tells."""
    import torch.distributed as dist

    if dist.is_initialized() and dist.get_backend() == "nccl":
        from torch.distributed.distributed_c10d import _abort_process_group

        with suppress(Exception):
            _abort_process_group()


def _leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        with suppress(Exception):  # connections that are broken already
            dist.destroy_process_group()
