"""Expressions over elements as kernels of this computer."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tilewright as tw
from support.compiled import kernel_of
from tilewright.ops.mapping import mapping
from tilewright.targets.host import code as host_code

EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 88.0, -3.5]


def compiled(expression: str, count: int, kind: str) -> Any:
    op = mapping(count, expression, dtype=kind)
    return kernel_of(op, machine="host_portable", measure=False)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    "expression",
    ["x0", "2 * x0 - x1", "abs(x0)", "x0 if x0 > x1 else x1", "exp(x0)", "tanh(x0) * x1"],
)
def test_a_kernel_computes_what_the_reference_does(expression: str, kind: str) -> None:
    kernel = compiled(expression, 300, kind)
    names = [t.name for t in kernel.artifact.tensors if t.kind == "input"]
    float_type = np.float32 if kind == "f32" else np.float64
    given = np.random.default_rng(1).standard_normal((len(names), 300)).astype(float_type)
    given[:, :8] = EXTREMES
    found = kernel.run(**dict(zip(names, given, strict=True)))["y"]
    with np.errstate(all="ignore"):
        expected = kernel.op.reference(*given)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if kind == "f32" else 1e-14)


def test_floats_are_rounded_to_bf16_and_back() -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, 5000, dtype=np.uint32)
    ties = np.arange(2**16, dtype=np.uint32) << 16 | 0x8000
    given = np.concatenate([bits, ties, ties - 1, ties + 1]).view(np.float32)
    narrow = compiled("x0", given.size, "f32:f32:bf16").run(x0=given)["y"]
    wide = compiled("x0", given.size, "bf16:f32:f32").run(x0=narrow)["y"]
    with np.errstate(invalid="ignore"):
        expected = given.astype(bfloat16)
    np.testing.assert_array_equal(narrow.astype(np.float32), expected.astype(np.float32))
    np.testing.assert_array_equal(wide, expected.astype(np.float32))


@pytest.mark.parametrize(
    ("expression", "kind", "types"),
    [
        ("3 * (x0 - x1)", "i8:i32:i16:even:wrap", (np.int8, np.int8)),
        ("x0 * x1 * x1 - 5", "i32:i32:i32:even:wrap", (np.int32, np.int32)),
        ("x0 * x0 * x1 + 7", "i16:i32:i8:even:wrap", (np.int16, np.int16)),
    ],
)
def test_integers_wrap(expression: str, kind: str, types: tuple[Any, ...]) -> None:
    kernel = compiled(expression, 1000, kind)
    draw = np.random.default_rng(2)
    given = [
        draw.integers(np.iinfo(t).min, np.iinfo(t).max, 1000, endpoint=True).astype(t)
        for t in types
    ]
    found = kernel.run(x0=given[0], x1=given[1])["y"]
    np.testing.assert_array_equal(found, kernel.op.reference(*given))


def test_the_makefile_links_what_functions_need(tmp_path: Path) -> None:
    kernel = compiled("exp(x0) + x1", 10, "f64")
    kernel.write(tmp_path / "out")
    subprocess.run(["make", "-s", "-C", tmp_path / "out"], check=True)
    library = ctypes.CDLL(str(tmp_path / "out" / "libmap.so"))
    x = np.linspace(-1, 1, 10)
    y = np.empty(10)
    library.map(*(array.ctypes.data_as(ctypes.c_void_p) for array in (x, x, y)), None)
    np.testing.assert_allclose(y, np.exp(x) + x, rtol=1e-15)


def test_a_kernel_is_run_as_its_makefile_builds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers wrap by a flag of the compiler, which loading a kernel gives as well."""
    flags: list[tuple[str, ...]] = []
    monkeypatch.setattr(host_code, "load_library", lambda sources, given: flags.append(given))
    op = tw.ops.gemm(8, 8, 8, dtype="i8:i32")
    kernel = kernel_of(op, machine="host_portable", measure=False)
    host_code.load_kernel(kernel.artifact, kernel.machine)
    assert flags == [("-fwrapv",)]
