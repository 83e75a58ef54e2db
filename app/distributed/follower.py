"""One of the other processes of a group: carries out what the first process tells it, and ends when that one does.

``python -m app.distributed.follower FILE``: started by ``members``; FILE is where the processes find each other.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Thread

from app.distributed.members import READY
from app.errors import ModelError


def follow_torchrun(size: int) -> bool:
    """Under torchrun, every process but the first follows until the end, and this says True; else nothing happens.

    Raises RefusedInput when torchrun started another number of processes than ``size``, ModelError when the first one is gone.
    """
    from app.distributed.joining import join_torchrun, torchrun_rank
    from app.models.quiet import listening

    if not torchrun_rank():
        return False
    with listening():
        join_torchrun(size)
        try:
            follow()
        except RuntimeError as error:
            raise ModelError(f"The first process is gone, so this one ends: {error}") from error
    return True


def follow() -> None:
    """Carry out messages until the end of the group (whose members have joined already)."""
    from app.distributed.channel import Channel
    from app.distributed.messages import Share

    share = Share(Channel())
    while not share.ended:
        share.channel.hear().apply(share)


def _end_with_parent() -> None:
    """Standard input ends when the first process does, however it ends."""
    sys.stdin.buffer.read()
    os._exit(0)  # the main thread may be waiting inside a library


def main(meeting: str) -> None:
    """Join the group and follow."""
    Thread(target=_end_with_parent, name="fader-end-with-parent", daemon=True).start()
    import torch.distributed  # noqa: F401  (takes seconds: done before anybody waits for this process)
    import transformers  # noqa: F401

    from app.distributed.joining import join_at
    from app.models.quiet import listening

    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody reads standard output from here on
    with listening():
        join_at(Path(meeting), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        follow()


if __name__ == "__main__":
    main(sys.argv[1])
