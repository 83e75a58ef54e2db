"""Builds the kernels in ``source/`` once, with whatever C compiler there is, and keeps the library in the cache folder.

A compiler is part of most systems; where there is none, set-up installs the package ``ziglang``, which is one. The library's name
holds a hash of all it was made from, so that another version of Fader, or another compiler, makes its own.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.errors import FaderError

SUFFIX = ".dll" if sys.platform == "win32" else ".so"
_TIMEOUT = 180
_X86 = ("x86_64", "AMD64")
_NEEDED = ("avx2", "fma3", "f16c")


class NotBuilt(FaderError):
    """The kernels can't be had here; the message says why, and the library's own operators do the work."""


def compilers() -> Iterator[list[str]]:
    """Commands of C compilers on this machine, the best first: ``CC``, the system's, the one in the package ziglang."""
    named = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    yield from ([found] for name in named if name and (found := shutil.which(name)))
    if find_spec("ziglang"):
        yield [sys.executable, "-m", "ziglang", "cc"]


def flags() -> list[str]:
    """What the kernels are built for: AVX2 on the x86 processors that have it, plain C on all others.

    No ``-march=native``: it makes libraries that crash on virtual machines which hide parts of their processor.
    """
    import torch

    ask = getattr(torch.cpu, "get_capabilities", dict)
    have: dict[str, Any] = ask() if platform.machine() in _X86 else {}
    quick = ["-mavx2", "-mfma", "-mf16c"] if all(have.get(name) for name in _NEEDED) else []
    return [
        "-std=c11",
        "-O3",
        "-fno-math-errno",
        "-fvisibility=hidden",
        "-shared",
        *quick,
        *_SYSTEM.get(sys.platform, _UNIX),
    ]


_UNIX = ["-fPIC", "-D_GNU_SOURCE", "-pthread"]
_SYSTEM: dict[str, list[str]] = {"win32": []}


def build(cache: Path) -> Path:
    """The library, built now unless it is there. Raises NotBuilt when no compiler makes it."""
    with as_file(files("app.native") / "source") as folder:
        sources = sorted(folder.glob("*.c"))
        target = cache / "native" / f"fader-{_identity(sorted(folder.iterdir()))}{SUFFIX}"
        if target.exists():
            return target
        said = [_try(command, sources, target) for command in _until_there(target)]
    if target.exists():
        return target
    raise NotBuilt(f"no C compiler could build the kernels: {said[-1]}" if said else "no C compiler was found")


def _until_there(target: Path) -> Iterator[list[str]]:
    for command in compilers():
        if target.exists():
            return
        yield command


def _identity(everything: Sequence[Path]) -> str:
    digest = hashlib.sha256(" ".join([*flags(), platform.machine(), sys.platform]).encode())
    for file in everything:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _try(command: Sequence[str], sources: Sequence[Path], target: Path) -> str:
    """Build with one compiler; "" when it worked, else what it said. The library appears complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".pending-") as pending:
        made = Path(pending) / target.name
        maths = [] if sys.platform == "win32" else ["-lm"]
        whole = [*command, *flags(), "-o", str(made), *map(str, sources), *maths]
        surroundings = os.environ | {"ZIG_GLOBAL_CACHE_DIR": pending, "ZIG_LOCAL_CACHE_DIR": pending}
        try:
            done = subprocess.run(  # noqa: S603  (a command of our own making)
                whole, capture_output=True, text=True, timeout=_TIMEOUT, env=surroundings, check=False
            )
        except (OSError, subprocess.SubprocessError) as cause:
            return str(cause)
        if done.returncode:
            return done.stderr.strip()[-300:] or f"{command[0]} ended with {done.returncode}"
        made.replace(target)
    return ""
