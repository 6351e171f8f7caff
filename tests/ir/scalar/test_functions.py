"""Every function of the table, without a line for it: arrays, C in both precisions, derivatives."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.scalars import BITS, OF_FLOATS, scalars
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import F32, F64, DType
from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import (
    FUNCTIONS,
    Apply,
    Element,
    Scalar,
    c_text,
    composite,
    derivative,
    operations,
    parse_scalar,
)
from tilewright.ir.scalar.c_text import LIBRARY_FUNCTIONS
from tilewright.ir.scalar.error_function import error_function
from tilewright.ir.scalar.functions import Composite

EDGES = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -3.0, 20.0, -20.0, 1e9, np.inf, -np.inf, np.nan)
DENSE = np.random.default_rng(7).uniform(-4, 4, (3, 4000))
SMOOTH, STEP = 100, 2e-5


def of_operands(name: str) -> Scalar:
    return Apply(name, tuple(map(Element, range(FUNCTIONS[name].arity))))


def points(name: str) -> np.ndarray:
    """Operands, an array for each of them: all combinations of edges, then random ones."""
    count = FUNCTIONS[name].arity
    edges = np.array(np.meshgrid(*[EDGES] * count)).reshape(count, -1)
    return np.concatenate([edges, DENSE[:count]], axis=1)


InC = tuple[DType, Callable[[str, np.ndarray], np.ndarray]]


@pytest.fixture(scope="module", params=[F64, F32], ids=str)
def in_c(request: pytest.FixtureRequest) -> InC:
    """All functions as one library of loops."""
    kind, lines = request.param, ["#include <math.h>"]
    for number, name in enumerate(OF_FLOATS):
        arity = FUNCTIONS[name].arity
        text = c_text(of_operands(name), [f"x[{i} * n + k]" for i in range(arity)], kind)
        lines.append(f"void f{number}({kind.c_name} *y, const {kind.c_name} *x, long n)")
        lines.append(f"{{ for (long k = 0; k < n; k++) y[k] = {text}; }}")
    flags = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-o", "library.so", "-lm")
    source = {"functions.c": "\n".join(lines) + "\n"}
    (path,) = compiled_files("the tests", "scalar-tests", source, flags)
    library = ctypes.CDLL(str(path))

    def call(name: str, x: np.ndarray) -> np.ndarray:
        y = np.empty(x.shape[1], kind.numpy)
        where = (ctypes.c_void_p(a.ctypes.data) for a in (y, x))
        getattr(library, f"f{OF_FLOATS.index(name)}")(*where, ctypes.c_long(x.shape[1]))
        return y

    return kind, call


def value(scalar: Scalar, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.broadcast_to(np.asarray(scalar.value(x), np.float64), x.shape[1:])


@pytest.mark.parametrize("name", OF_FLOATS)
def test_c_computes_what_arrays_do(name: str, in_c: InC) -> None:
    kind, call = in_c
    x = np.ascontiguousarray(points(name), kind.numpy)
    with np.errstate(all="ignore"):
        expected = value(of_operands(name), x.astype(np.float64)).astype(kind.numpy)
    eps = float(np.finfo(kind.numpy).eps)
    found = call(name, x)
    usual = ~(np.abs(expected) > np.finfo(kind.numpy).max / 1e3)  # parts of others may overflow
    np.testing.assert_allclose(found[usual], expected[usual], rtol=40 * eps, atol=8 * eps)
    zeros = (found == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


def slope(scalar: Scalar, x: np.ndarray, operand: int, step: float) -> np.ndarray:
    """The central difference."""
    there, here = x.copy(), x.copy()
    there[operand] += step
    here[operand] -= step
    with np.errstate(all="ignore"):
        return (value(scalar, there) - value(scalar, here)) / (there[operand] - here[operand])


def require_slope(scalar: Scalar, operand: int, x: np.ndarray, at_least: int) -> None:
    """Where differences of three steps agree, the derivative does, too."""
    found = value(derivative(scalar, operand), x)
    coarse, other, fine = (slope(scalar, x, operand, STEP / part) for part in (1, 1.7, 2.3))
    with np.errstate(all="ignore"):
        size = np.abs(fine) + np.abs(value(scalar, x)) + 1
        smooth = np.maximum(np.abs(coarse - fine), np.abs(other - fine)) < 1e-6 * size
    assert np.count_nonzero(smooth) >= at_least
    apart = np.abs(found - fine)[smooth] / size[smooth]
    assert apart.max(initial=0.0) < 1e-5, (str(scalar), x[:, smooth][:, np.nanargmax(apart)])
    assert not np.isnan(apart).any(), (str(scalar), x[:, smooth][:, np.isnan(apart)])


@pytest.mark.parametrize("name", OF_FLOATS)
def test_derivatives_are_central_differences(name: str) -> None:
    for operand in range(FUNCTIONS[name].arity):
        require_slope(of_operands(name), operand, DENSE[: FUNCTIONS[name].arity], SMOOTH)


@given(scalars(OF_FLOATS, st.floats(-3, 3)), st.integers(0, 2))
def test_derivatives_of_any_expression_are_central_differences(
    scalar: Scalar, operand: int
) -> None:
    require_slope(scalar, operand, DENSE[:, :200] / 2, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 * x0 + 2", "3.0"),
        ("x0 * x0", "x0 + x0"),
        ("x1", "0.0"),
        ("pow(x0, 3)", "3.0 * pow(x0, 2.0)"),
        ("x0 / x1", "1.0 / x1"),
        ("relu(x0)", "0.0 if x0 < 0.0 else 1.0"),
        ("min(x0, x1)", "1.0 if x1 > x0 or x0 != x0 else 0.0"),
        ("sigmoid(x0)", "sigmoid(x0) * sigmoid(-x0)"),
        ("exp(-x0)", "-exp(-x0)"),
        ("floor(x0) + (x0 < 1) + round(x0)", "0.0"),
        ("x0 if x0 < x1 else 2 * x0", "1.0 if x0 < x1 else 2.0"),
    ],
)
def test_derivatives_are_simple(text: str, expected: str) -> None:
    assert str(derivative(parse_scalar(text), 0)) == expected


@pytest.mark.parametrize("x", [-1e4, -800.0, -40.0, 0.0, 40.0, 800.0, 1e4])
@pytest.mark.parametrize("name", ["sigmoid", "softplus", "tanh", "elu", "gelu", "mish", "swish"])
def test_functions_of_networks_have_finite_slopes_everywhere(name: str, x: float) -> None:
    at = np.full((FUNCTIONS[name].arity, 1), 1.0)
    at[0] = x
    assert np.isfinite(value(derivative(of_operands(name), 0), at)).all()


@pytest.mark.parametrize("name", BITS)
def test_functions_of_bits_have_no_derivative(name: str) -> None:
    with pytest.raises(ProgramError) as refusal:
        derivative(of_operands(name), 0)
    assert str(refusal.value) == f"{name!r} works on bits and has no derivative"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("x0 % x1", lambda a, b: a % b),
        ("x0 // x1", lambda a, b: math.floor(a / b)),
        ("fmod(x0, x1)", math.fmod),
        ("max(x0, x1)", max),
        ("min(x0, x1)", min),
        ("round(x0)", lambda a, b: round(a)),
        ("trunc(x0)", lambda a, b: math.trunc(a)),
        ("erf(x0)", lambda a, b: math.erf(a)),
        ("asinh(x0)", lambda a, b: math.asinh(a)),
        ("gelu(x0)", lambda a, b: a * (1 + math.erf(a / math.sqrt(2))) / 2),
        ("mish(x0)", lambda a, b: a * math.tanh(math.log1p(math.exp(a)))),
        ("hard_swish(x0)", lambda a, b: a * min(max(a / 6 + 0.5, 0), 1)),
        ("selu(x0, 1.5, 2)", lambda a, b: 2 * (a if a > 0 else 1.5 * math.expm1(a))),
    ],
)
def test_functions_mean_what_pythons_do(
    text: str, meaning: Callable[[float, float], float]
) -> None:
    found = value(parse_scalar(text), DENSE[:2, :500])
    expected = [meaning(a, b) for a, b in DENSE[:2, :500].T.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)


def test_a_function_that_is_entered_is_known_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    own = composite("own_mish", 1, "x0 * tanh(log1p(exp(x0)))")
    monkeypatch.setitem(FUNCTIONS, own.name, own)
    scalar, x = parse_scalar("own_mish(2 * x0)"), DENSE[:1]
    np.testing.assert_allclose(value(scalar, x), value(parse_scalar("mish(2 * x0)"), x), 1e-12)
    assert c_text(scalar, ["v"], F32) == ("((2.0f * v) * tanhf(log1pf(expf((2.0f * v)))))")
    assert operations(scalar) == operations(parse_scalar("2 * x0 * tanh(log1p(exp(2 * x0)))"))
    require_slope(scalar, 0, x, SMOOTH)


def test_functions_of_the_library_are_those_that_texts_call():
    assert {"exp", "expm1", "tanh", "erf", "log"} <= set(LIBRARY_FUNCTIONS)
    for name in FUNCTIONS:
        called = set(re.findall(r"([a-z]\w*)\(", c_text(of_operands(name), ("a", "b", "c"), F64)))
        assert called <= {*LIBRARY_FUNCTIONS, name}, name


def test_parameters_of_a_function_stand_behind_its_element():
    counts = {name: own.parameters for name, own in FUNCTIONS.items() if own.parameters}
    one = {"thresholded_relu", "celu", "elu", "swish", "leaky_relu"}
    two = {"shrink", "clip", "selu", "hard_sigmoid"}
    assert counts == {**dict.fromkeys(one, 1), **dict.fromkeys(two, 2)}


@pytest.mark.parametrize("name", [n for n, own in FUNCTIONS.items() if isinstance(own, Composite)])
def test_an_expression_reads_every_operand_of_its_function(name):
    used = {int(number) for number in re.findall(r"\bx(\d+)", FUNCTIONS[name].expression)}
    assert used == set(range(FUNCTIONS[name].arity))


def test_where_the_polynomials_of_the_error_function_meet_it_is_exact():
    assert error_function([1.0, -1.0]).tolist() == [math.erf(1.0), math.erf(-1.0)]
