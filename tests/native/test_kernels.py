"""The kernels compute what their weights stand for: every kind and shape, any number of rows and threads, with and without AVX2."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from app.models.grid import BITS, to_grid, to_grid8
from app.models.packing import levels, quantize, unpack
from app.native import build as building
from app.native.build import NotBuilt, build, compilers, flags
from app.native.library import Kernels
from app.native.weights import FEW, Weight, from_grid, from_grid8, from_levels, from_plain

Made = tuple[Weight, torch.Tensor]
"""A weight for the kernels, and the numbers it stands for, float32 [rows, columns]."""


def nf4(kernels: Kernels, weight: torch.Tensor, scheme: str = "nf4") -> Made:
    codes, scales = quantize(weight.bfloat16(), scheme)
    rounded = levels(scheme).bfloat16().float()
    exact = unpack(codes, torch.ones_like(scales), scheme, torch.float32)
    numbers = rounded[(exact[..., None] - levels(scheme)).abs().argmin(-1)]
    whole = (numbers.view(weight.shape[0], -1, 64) * scales[..., None].float()).view(weight.shape)
    return from_levels(kernels, codes, scales, levels(scheme)), whole


def fp4(kernels: Kernels, weight: torch.Tensor) -> Made:
    return nf4(kernels, weight, "fp4")


def int4(kernels: Kernels, weight: torch.Tensor) -> Made:
    codes, scales, offsets = to_grid(weight)
    steps = torch.stack([codes >> 4, codes & 15], -1).view(weight.shape[0], -1, 32)
    whole = steps * _floats(scales) + _floats(offsets)
    return from_grid(kernels, codes, scales, offsets), whole.view(weight.shape)


def int8(kernels: Kernels, weight: torch.Tensor) -> Made:
    codes, scales = to_grid8(weight)
    whole = codes.view(weight.shape[0], -1, 32) * _floats(scales)
    return from_grid8(kernels, codes, scales), whole.view(weight.shape)


def bfloat16(kernels: Kernels, weight: torch.Tensor) -> Made:
    return from_plain(kernels, weight.bfloat16()), weight.bfloat16().float()


def float32(kernels: Kernels, weight: torch.Tensor) -> Made:
    return from_plain(kernels, weight), weight


def _floats(bits: torch.Tensor) -> torch.Tensor:
    assert bits.dtype is BITS
    return bits.view(torch.float16)[..., None].float()


KINDS: list[tuple[Callable[[Kernels, torch.Tensor], Made], tuple[int, ...]]] = [
    (nf4, (64, 128, 576)),
    (fp4, (64, 192)),
    (int4, (32, 64, 96, 288, 576)),
    (int8, (32, 96, 576)),
    (bfloat16, (8, 24, 576)),
    (float32, (8, 40, 64)),
]
CASES = [(kind, columns) for kind, all_columns in KINDS for columns in all_columns]


@pytest.mark.parametrize(("kind", "columns"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
@pytest.mark.parametrize("rows", [1, 7, 33])
def test_products_and_unpacking(
    kernels: Kernels, kind: Callable[[Kernels, torch.Tensor], Made], columns: int, rows: int
) -> None:
    torch.manual_seed(rows * columns)
    weight, whole = kind(kernels, torch.randn(rows, columns))
    assert torch.allclose(weight.unpack(torch.float32), whole, rtol=1e-6, atol=1e-7)
    assert torch.equal(weight.unpack(torch.bfloat16), weight.unpack(torch.float32).bfloat16())
    for many in (1, 3, 4, 5, FEW):
        x = torch.randn(many, columns)
        expected = x.double() @ whole.double().T
        assert (weight.multiply(x) - expected).abs().max() < 1e-5 * columns


def test_a_row_alone_and_among_others_gives_the_same_bits(kernels: Kernels) -> None:
    """What a token's numbers are does not depend on what is computed beside it."""
    weight, _ = int4(kernels, torch.randn(48, 96))
    x = torch.randn(4, 96)
    assert torch.equal(weight.multiply(x)[2], weight.multiply(x[2:3])[0])


def test_few_rows_and_many_agree_and_a_bias_is_added(kernels: Kernels) -> None:
    bias = torch.linspace(-1, 1, 24)
    whole = torch.randn(24, 64)
    weight, x = from_plain(kernels, whole, bias), torch.randn(40, 64)
    expected = torch.nn.functional.linear(x, whole, bias)
    for part in (x, x[:FEW]):
        assert torch.allclose(weight.apply(part).float(), expected[: len(part)], rtol=0.02, atol=0.1)
    assert weight.apply(x[None, :3].bfloat16()).dtype is torch.bfloat16


def test_threads_change_no_bit(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, _ = nf4(kernels, torch.randn(100, 128))
    x, found = torch.randn(1, 128), []
    for threads in (1, 2, 5):
        monkeypatch.setattr(kernels, "threads", threads)
        found.append(weight.multiply(x))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_calls_from_several_threads_do_not_mix(kernels: Kernels) -> None:
    from concurrent.futures import ThreadPoolExecutor

    weight, whole = float32(kernels, torch.randn(64, 64))
    inputs = [torch.full((1, 64), float(number)) for number in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(weight.multiply, inputs))
    for x, product in zip(inputs, found, strict=True):
        assert torch.allclose(product, x @ whole.T, rtol=1e-5, atol=1e-4)


def test_it_is_built_once_and_again_when_a_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build(tmp_path)
    monkeypatch.setattr(building, "compilers", lambda: iter(()))
    assert build(tmp_path) == first
    monkeypatch.setattr(building, "flags", lambda: ["-DANOTHER"])
    with pytest.raises(NotBuilt, match="no C compiler was found"):
        build(tmp_path)


def test_a_compiler_that_fails_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "compilers", lambda: iter([[sys.executable, "-c", "raise SystemExit('no luck')"]]))
    with pytest.raises(NotBuilt, match="no luck"):
        build(tmp_path)
    assert list((tmp_path / "native").iterdir()) == []


def test_the_next_compiler_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = next(compilers())
    monkeypatch.setattr(building, "compilers", lambda: iter([[sys.executable, "-c", "raise SystemExit(1)"], real]))
    assert build(tmp_path).exists()


@pytest.mark.full
@pytest.mark.skipif(find_spec("ziglang") is None, reason="only where the system has no compiler")
@pytest.mark.parametrize("system", ["x86_64-windows-gnu", "aarch64-macos", "aarch64-linux-gnu"])
def test_the_packaged_compiler_builds_for_all_systems(system: str, tmp_path: Path) -> None:
    target = tmp_path / "library"
    sources = sorted((Path(building.__file__).parent / "source").glob("*.c"))
    plain = [flag for flag in flags() if not flag.startswith("-m") and not (flag == "-pthread" and "windows" in system)]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", system, *plain, "-o", str(target), *map(str, sources)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert target.exists()


def test_a_compiler_is_there() -> None:
    """On this machine at least, or nothing above would tell anything."""
    assert next(compilers(), None), shutil.which("cc")
