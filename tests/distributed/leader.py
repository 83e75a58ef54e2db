"""A first process to be killed, or started by torchrun.

``python -m tests.distributed.leader MODEL``: loads the model over two processes, prints ``{"others", "ids"}`` (the other processes it
started, and what the model writes), then waits until its standard input ends. Under torchrun the second process follows, and the first
doesn't wait.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from app.distributed.follower import follow_torchrun
from app.distributed.joining import torchrun_rank
from app.settings import Settings
from tests.distributed.conftest import InTwo, started, use
from tests.engine.conftest import request_for


def main(model: str) -> None:
    if follow_torchrun(2):
        return
    settings = Settings()
    models = InTwo(settings)
    engine = started(models, settings.cache)
    use(engine, Path(model))
    ended = engine.submit(request_for("hello", requested={"max_new_tokens": 8, "do_sample": False})).result(120)
    sys.stdout.write(json.dumps({"others": models.others, "ids": ended.run.output_ids}) + "\n")
    sys.stdout.flush()
    if torchrun_rank() is None:
        sys.stdin.read()
    engine.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
