"""Code for several shapes: one set of constants, a function of each, and one that chooses."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import tilewright as tw
from support.native import NATIVE_HOSTS
from support.onnx_patterns import Graph
from tilewright.cli.main import app

native = pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")
SHAPES = [(3, 12), (5, 12)]
OTHER = np.zeros((4, 12), np.float32)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product, numbers that depend on the shape, two outputs."""
    g = Graph()
    x = g.input("x", 3, 12)
    places = g.Cast(g.Range(0, g.Gather(g.Shape(x), 0), 1), to=1)
    y = g.Mul(g.Relu(g.MatMul(x, g.weights(12, 7))), g.Unsqueeze(places, [1]))
    path = tmp_path_factory.mktemp("cases") / "m.onnx"
    onnx.save(g.model(y, g.ReduceMean(x, axes=[1])), path)
    return path


@pytest.fixture(scope="module")
def made(file: Path) -> tw.Compiled:
    return tw.compile(tw.load(file, shapes={"x": SHAPES}), "host", keep=1)


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def expected(file: Path, x: np.ndarray) -> list[np.ndarray]:
    return list(tw.load(file, shapes={"x": x.shape}).evaluate({"x": x}).values())


@native
def test_what_is_run_is_the_case_of_the_shape(file: Path, made: tw.Compiled) -> None:
    for shape in SHAPES:
        found = made.run(x := numbers(shape)).values()
        for ours, theirs in zip(found, expected(file, x), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@native
def test_another_shape_is_refused(made: tw.Compiled) -> None:
    with pytest.raises(tw.TilewrightError) as refusal:
        made.run(OTHER)
    assert str(refusal.value) == ("m has no code for 'x' 4x12; it was compiled for 3x12, 5x12")


@native
def test_the_folder_chooses_by_extents(file: Path, made: tw.Compiled, tmp_path: Path) -> None:
    folder = made.write(tmp_path / "m")
    flags = ["make", "-C", str(folder), "CFLAGS=-O0 -fPIC -march=native -fopenmp"]
    subprocess.run(flags, check=True, capture_output=True)
    library = ctypes.CDLL(str(folder / "libm.so"))
    constants = aligned(np.fromfile(folder / "m.bin", np.uint8))
    arena = aligned(np.zeros(made.plan.code.arena_bytes, np.uint8))
    for x, status in [*((numbers(shape), 0) for shape in SHAPES), (OTHER, 1)]:
        extents, known = np.array(x.shape, np.int64), x.shape in SHAPES
        results = [np.zeros_like(y) for y in (expected(file, x) if known else [x, x])]
        pointers = (ctypes.c_void_p(a.ctypes.data) for a in (
            x, extents, *results, constants, arena))  # fmt: skip
        assert library.m_shaped(*pointers) == status
        for ours, theirs in zip(results, expected(file, x) if known else results, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def aligned(data: np.ndarray) -> np.ndarray:
    """A copy from a multiple of 64 on."""
    memory = np.zeros(data.size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start : start + data.size] = data
    return memory[start : start + data.size]


@native
def test_a_weight_is_there_once(file: Path, made: tw.Compiled) -> None:
    alone = [tw.load(file, shapes={"x": shape}) for shape in SHAPES]
    names = {t.name for t in alone[0].weights if t.shape[0] == 12}
    whole = made.workload.whole
    assert names <= {t.name for t in whole.weights}
    assert len(whole.weights) == len(names) + sum(len(n.weights) - len(names) for n in alone)
    plain = [c for c in made.plan.code.constants if not c.pack]
    assert len({(c.made, c.weights, c.form, c.numbers) for c in plain}) == len(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["x=3x12,3x12"],
            "the shapes x=3x12 are given twice; give each once",
        ),
        (
            ["x=3x12,5x12", "z=1,2,3"],
            "input 'x' has 2 shapes, another one 3; one shape for all cases, or one for each",
        ),
        (
            ["x=3x12,3"],
            "{file}: input 'x' has 2 dimensions, its given shape 1",
        ),
        (
            ["x=3x12,5x12"],
            "m is asked for in 2 shapes, sw26010_cg computes one; one shape of each input, or "
            "--machine host",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(file: Path, options: list[str], message: str) -> None:
    shapes = [word for option in options for word in ("--shape", option)]
    result = CliRunner().invoke(app, ["compile", str(file), "--machine", "sw26010_cg", *shapes])
    assert result.exit_code == 1
    assert result.output.replace("\n  fix:", ";").strip() == f"error: {message}".format(file=file)


def test_a_definition_has_one_shape_of_each_tensor() -> None:
    text = "y[i] += a[i,j] * b[j]"
    result = CliRunner().invoke(app, ["compile", text, "--shape", "a=2x3,4x5"])
    assert result.exit_code == 2
    assert "--shape: a of a definition has one shape" in result.output
