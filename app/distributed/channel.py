"""The line between the processes of one model: messages from the first to all others, and short reports back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

IDLE = timedelta(days=3650)
"""The others wait for the next message as long as nobody asks anything."""

REPORT_BYTES = 2048


class Channel:
    """A group of its own beside the model's: it speaks gloo on every machine, and never waits behind the model's sums.

    Messages are pickled: the processes belong to one user and trust each other. Every process must make its channel at the same time.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        self.size = dist.get_world_size()
        self._group: Any = dist.new_group(backend="gloo", timeout=IDLE)

    def tell(self, message: object) -> None:
        """Send a message to all others (first process only). Raises RuntimeError when one of them is gone."""
        import torch.distributed as dist

        dist.broadcast_object_list([message], src=0, group=self._group)

    def hear(self) -> Any:
        """The next message (other processes). Raises RuntimeError when the first process is gone."""
        import torch.distributed as dist

        heard: list[Any] = [None]
        dist.broadcast_object_list(heard, src=0, group=self._group)
        return heard[0]

    def report(self, sentence: str) -> None:
        """Tell the first process how something ended; empty: well."""
        import torch.distributed as dist

        dist.send(_packed(sentence), dst=0, group=self._group)

    def reports(self, patience: timedelta = IDLE) -> list[str]:
        """What went wrong in the others, a sentence each; waits for all of them. Raises RuntimeError when that takes too long."""
        import torch.distributed as dist

        boxes = [_packed("") for _ in range(self.size - 1)]
        works = [dist.irecv(box, src=rank, group=self._group) for rank, box in enumerate(boxes, start=1)]
        for work in works:
            if work is not None:
                work.wait(patience)
        return [sentence for box in boxes if (sentence := _unpacked(box))]


def _packed(sentence: str) -> torch.Tensor:
    """A text as uint8 [REPORT_BYTES], filled up with zeros."""
    import torch

    raw = sentence.encode()[:REPORT_BYTES].ljust(REPORT_BYTES, b"\0")
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


def _unpacked(box: torch.Tensor) -> str:
    return bytes(box.tolist()).rstrip(b"\0").decode(errors="replace")
