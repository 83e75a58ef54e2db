"""The kernels as they are built for this processor, and for one that can do nothing special."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.native import build as building
from app.native.build import build, flags
from app.native.library import Kernels


@pytest.fixture(scope="module", params=["this processor", "plain C"])
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    """Built for what this processor can do, and for one that can do nothing special."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain C":
            plain = [flag for flag in flags() if not flag.startswith("-m")]
            patch.setattr(building, "flags", lambda: plain)
        made = Kernels(build(tmp_path_factory.mktemp("kernels")), 2)
    yield made
    made.disband()
