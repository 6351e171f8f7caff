"""Generated C equals the reference on infinities, what is no number, zeros and denormals."""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest

from support.native import NATIVE_HOSTS
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import dtype
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.ir.scalar import COMPARISONS, Apply, Number, Scalar, expanded
from tilewright.network.plans import Search
from tilewright.ops import Binary, Pool2d, Unary, max_pool2d
from tilewright.ops.elementwise import binary_functions, unary_functions
from tilewright.targets.host.native import FLAGS
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.network.run import LoadedNetwork

pytestmark = pytest.mark.skipif(not NATIVE_HOSTS, reason="no instruction set of this processor")

INFINITE = float("inf")
PARAMETERS = {
    "clip": [(0.0, 6.0), (6.0, 0.0), (-0.0, 0.0), (0.0, -0.0), (-INFINITE, INFINITE), (2.0, 2.0),
             (INFINITE, -INFINITE), (1.0, -0.0), (-1e-45, 1e-45)],
    "elu": [(1.0, 0.0), (0.0, 0.0), (-2.0, 0.0)],
    "hard_sigmoid": [(0.2, 0.5), (0.0, 0.5), (-1.0, 0.0), (1e30, -1e30)],
    "leaky_relu": [(0.01, 0.0), (0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (-0.5, 0.0)],
}  # fmt: skip
CANCELLING = ("gelu", "gelu_tanh")
"""Exact to the last places of x: what is left of 1 - 1 for numbers far below zero is rounding."""
EXACT = ("abs", "ceil", "floor", "fmod", "if", "negative", "not", "or", "and", "round")


def roundings(scalar: Scalar) -> int:
    """How often a result is rounded, factors that single precision may not have included; those of
    the C library count twice.
    """
    match scalar:
        case Apply(function, arguments):
            inner = sum(map(roundings, arguments))
            if function in (*EXACT, *COMPARISONS):
                return inner
            numbers = sum(isinstance(a, Number) and a.number % 1 != 0 for a in arguments)
            return inner + numbers + (1 if function in ("+", "-", "*", "/", "sqrt") else 2)
        case _:
            return 0


def edges(kind: str) -> np.ndarray:
    """Numbers at which functions change, each with both signs, and what is none."""
    info = np.finfo(dtype(kind).numpy)
    small = [0.0, info.smallest_subnormal, info.tiny, info.eps, 0.1, 0.5, 1.0, 1.5, 2.0, 6.0, 20.0]
    every = [*small, 80.0, float(info.max), INFINITE]
    return np.array([sign * x for x in every for sign in (1, -1)] + [np.nan], info.dtype)


def every_function(kind: str) -> tuple[Network, dict[str, np.ndarray]]:
    """A network with an output for each function and parameters, and its inputs."""
    x = edges(kind)
    pairs = np.array(list(product(x, x)))
    net = NetworkBuilder("edges", kind)
    for name, shape in {"x": x.shape, "a": (len(pairs),), "b": (len(pairs),)}.items():
        net.input(name, shape)
    for name in unary_functions():
        for number, (alpha, beta) in enumerate(PARAMETERS.get(name, [(0.0, 0.0)])):
            net.apply(Unary(name, x.shape, alpha, beta, kind), "x", name=f"{name}_{number}")
    for name in binary_functions():
        op = Binary(name, (len(pairs),), (len(pairs),), kind)
        net.apply(op, "a", "b", name=f"{name}_ab")
        net.apply(op, "b", "a", name=f"{name}_ba")
    taps = windows(x)
    net.input("w", taps.shape)
    net.apply(max_pool2d(taps.shape, 2, stride=2, dtype=kind), "w", name="pool")
    names = tuple(node.output for node in net.build(()).nodes)
    return net.build(names), {"x": x, "a": pairs[:, 0], "b": pairs[:, 1], "w": taps}


def windows(x: np.ndarray) -> np.ndarray:
    """Images whose 2 x 2 windows hold four of the numbers each."""
    generator = np.random.default_rng(0)
    return generator.choice(x, (1, 4, 32, 32))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_every_function_equals_its_reference(kind: str) -> None:
    network, inputs = every_function(kind)
    code = generated(network, NATIVE_HOSTS[0], Search(keep=1))
    sources = {n: t for n, t in code.files.items() if n.endswith((".c", ".h"))}
    (path,) = compiled_files("the tests", "host-tests", sources, (*FLAGS, *code.flags, "-lm"))
    loaded = LoadedNetwork(code, ctypes.CDLL(str(path)))
    bound = loaded.bind(loaded.constants({}))
    bound.give(inputs)
    bound.repeat(1)
    outputs = bound.outputs()
    for name, expected in network.evaluate(inputs).items():
        found = outputs[name]
        op = next(node.op for node in network.nodes if node.output == name)
        once = isinstance(op, Pool2d) or roundings(expanded(op.scalar)) < 2
        tolerance = 0.0 if once else 8 * float(np.finfo(found.dtype).eps)
        tiny = float(np.finfo(found.dtype).tiny) if tolerance else 0.0
        tiny = 8 * tolerance if op.kind in CANCELLING else tiny
        np.testing.assert_allclose(found, expected, tolerance, tiny, err_msg=name)
        signs = (np.signbit(found) != np.signbit(expected)) & (found == 0) & ~np.isnan(expected)
        assert not (signs & (expected == 0)).any(), name
