"""How the processes of a group find each other: started by Fader on one machine, or by torchrun, on several machines too."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.distributed.members import Member
from app.errors import ModelError, RefusedInput

if TYPE_CHECKING:
    from app.distributed.group import Group
    from app.models.watch import Watch

LONGEST_SUM = timedelta(hours=2)
"""Loading a large model from a slow disk takes one process longer than another."""

TO_MEET = timedelta(minutes=2)
_LOOK_AGAIN = 0.1


def start(size: int, watch: Watch) -> Group:
    """Start ``size - 1`` processes beside this one and join them. Raises ModelError when one doesn't come up, Cancelled."""
    from app.distributed.channel import Channel
    from app.distributed.group import Group

    folder = Path(tempfile.mkdtemp(prefix="fader-processes-"))
    meeting, threads = folder / "meeting", _threads_each(size)
    members = [Member(rank, size, meeting, threads) for rank in range(1, size)]
    try:
        for member in members:
            _await(member, watch)
        join_at(meeting, 0, size)
        channel = Channel()
    except BaseException:
        for member in members:
            member.kill()
            member.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise

    back = _share_cores(threads)

    def clean_up() -> None:
        back()
        shutil.rmtree(folder, ignore_errors=True)

    return Group(channel, members, clean_up)


def _await(member: Member, watch: Watch) -> None:
    while not member.ready.wait(_LOOK_AGAIN):
        watch.step(f"Starting process {member.rank + 1} of {member.size}")
        if member.ended.is_set():
            raise ModelError(f"{member.obituary} The model was not loaded.")


def join_at(meeting: Path, rank: int, size: int) -> None:
    """Join a group on this machine through a file in a private folder: nothing listens to the network."""
    import torch.distributed as dist

    if loopback := next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    os.environ.setdefault("LOCAL_RANK", str(rank))  # the library binds the card of this number
    store: Any = dist.FileStore(str(meeting), size)  # type: ignore[attr-defined]  # public, but declared elsewhere
    store.set_timeout(TO_MEET)
    _initialize(rank, {"store": store, "rank": rank, "world_size": size})


def _initialize(local_rank: int, where: dict[str, Any]) -> None:
    """Torch's default group: over the cards where there are cards, else over gloo."""
    import torch
    import torch.distributed as dist

    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        device = torch.device("cuda", local_rank)
        dist.init_process_group("nccl", timeout=LONGEST_SUM, device_id=device, **where)
    else:
        dist.init_process_group("gloo", timeout=LONGEST_SUM, **where)


def _threads_each(size: int) -> int:
    """Threads of arithmetic for each process: on a CPU they share the cores."""
    import torch

    return torch.get_num_threads() if torch.cuda.is_available() else max(1, torch.get_num_threads() // size)


def _share_cores(threads: int) -> Any:
    """Compute with so many threads from now on; returns what undoes it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    return lambda: torch.set_num_threads(before)


# -- torchrun --------------------------------------------------------------------------------------------------------------


def torchrun_rank() -> int | None:
    """This process's number among those that torchrun started; None where it wasn't torchrun."""
    with suppress(KeyError, ValueError):
        if int(os.environ["WORLD_SIZE"]) > 1 and os.environ["MASTER_ADDR"]:
            return int(os.environ["RANK"])
    return None


def join_torchrun(size: int) -> None:
    """Join the group that torchrun has called together. Raises RefusedInput when it has another size than was asked for."""
    world = int(os.environ["WORLD_SIZE"])
    if size != world:
        raise RefusedInput(f"torchrun started {world} processes: start Fader with --tensor-parallel {world}.")
    _initialize(int(os.environ.get("LOCAL_RANK", "0")), {"init_method": "env://"})
