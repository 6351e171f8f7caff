"""Expressions over integers are exact modulo 2 ** bits, as arrays and as C."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.scalars import OF_FLOATS, OF_INTEGERS, scalars
from tilewright.codegen.c.compiler import compiled_files
from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import ProgramError
from tilewright.ir.scalar import (
    FUNCTIONS,
    Apply,
    Element,
    Elementary,
    Number,
    Scalar,
    c_text_of_integers,
    check_floats,
    expanded,
    integral,
    parse_scalar,
    wrapped,
)

KINDS = [dtype(name) for name in ("i8", "u8", "i16", "i32", "i64")]
WHOLE = st.integers(-9, 70).map(float)
EXPRESSIONS = [
    "x0 + x1 * x2", "x0 * x0 * x0 - x1", "-x0", "abs(x0) + abs(x1)", "max(x0, x1) - min(x1, x2)",
    "x0 + x1 < x2", "(x0 < x1) + (x0 <= x1) + 2 * (x0 == x1)", "x0 >= x1 and not x1 != x2 or x0",
    "x0 & x1 | x2 ^ 5", "~(x0 - x1)", "x0 << 3", "x0 >> 2", "x0 + x1 << x2", "x0 + x1 >> x2",
    "relu(x0 * x1)", "quo(x0, x1 - x2)", "clip(x0 + x1, -3.0, 9.0)", "x0 if x1 + x2 else -x1",
    "sign(x0 - x1)",
]  # fmt: skip


def held(value: int, kind: DType) -> int:
    """The number modulo 2 ** bits."""
    low, high = kind.limits
    return (value - low) % (high - low + 1) + low


def meant(scalar: Scalar, x: tuple[int, ...], kind: DType) -> int:
    """By Python's own integers, wrapped after every function."""
    match scalar:
        case Number(number):
            return int(number)
        case Element(index):
            return x[index]
        case Apply(function, arguments):
            found = [meant(a, x, kind) for a in arguments]
            return held(int(_python(function, found, kind)), kind)


def _python(function: str, x: list[int], kind: DType) -> Any:
    match function:
        case "if":
            return x[1] if x[0] else x[2]
        case "negative":
            return -x[0]
        case "abs":
            return abs(x[0])
        case "not":
            return not x[0]
        case "~":
            return ~x[0]
        case "and":
            return bool(x[0] and x[1])
        case "or":
            return bool(x[0] or x[1])
        case "<<":
            return x[0] << x[1] if 0 <= x[1] < 64 else 0
        case ">>":
            return x[0] >> x[1] if 0 <= x[1] < 64 else -(x[0] < 0)
        case "quo":
            return 0 if x[1] == 0 else abs(x[0]) // abs(x[1]) * (1 if x[0] * x[1] > 0 else -1)
        case _:
            return eval(f"{x[0]} {function} ({x[1]})")


def drawn(kind: DType, count: int = 400) -> np.ndarray:
    """Operands: small ones, those at the ends of the type, and any."""
    rng, (low, high) = np.random.default_rng(kind.size_bytes), kind.limits
    ends = [low, low + 1, 0, 1, 2, 7, 63, high - 1, high]
    every = rng.integers(low, high, (3, count), endpoint=True, dtype=np.int64)
    return np.where(rng.random((3, count)) < 0.6, rng.choice(ends, (3, count)), every)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_arrays_hold_what_pythons_integers_are_modulo_the_type(text: str, kind: DType) -> None:
    require_exact(parse_scalar(text), kind)


@settings(max_examples=60)
@given(scalars(OF_INTEGERS, WHOLE), st.sampled_from(KINDS))
def test_any_expression_is_exact(scalar: Scalar, kind: DType) -> None:
    require_exact(scalar, kind)


def require_exact(scalar: Scalar, kind: DType) -> None:
    x = drawn(kind, 60)
    found = np.broadcast_to(wrapped(scalar, list(x), kind), x.shape[1:])
    own = expanded(scalar)
    expected = [held(meant(own, tuple(v), kind), kind) for v in x.T.tolist()]
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_c_computes_what_arrays_do(kind: DType) -> None:
    lines = []
    for number, text in enumerate(EXPRESSIONS):
        value = c_text_of_integers(parse_scalar(text), [f"x[{i} * n + k]" for i in range(3)], kind)
        lines.append(f"void f{number}({kind.c_name} *y, const {kind.c_name} *x, long n)")
        lines.append(f"{{ for (long k = 0; k < n; k++) y[k] = ({kind.c_name})({value}); }}")
    flags = ("-std=gnu11", "-O1", "-fwrapv", "-fPIC", "-shared", "-o", "library.so")
    source = {"functions.c": "#include <stdint.h>\n" + "\n".join(lines) + "\n"}
    (path,) = compiled_files("the tests", "scalar-tests", source, flags)
    library, x = ctypes.CDLL(str(path)), drawn(kind).astype(kind.numpy)
    for number, text in enumerate(EXPRESSIONS):
        y = np.empty(x.shape[1], kind.numpy)
        where = (ctypes.c_void_p(a.ctypes.data) for a in (y, x))
        getattr(library, f"f{number}")(*where, ctypes.c_long(x.shape[1]))
        np.testing.assert_array_equal(y, wrapped(parse_scalar(text), list(x), kind), err_msg=text)


@pytest.mark.parametrize(
    "name", [n for n in OF_FLOATS if getattr(FUNCTIONS[n], "types", "") == "floats"]
)
def test_integers_do_not_have_the_functions_of_floats(name: str) -> None:
    scalar = Apply(name, tuple(map(Element, range(FUNCTIONS[name].arity))))
    with pytest.raises(ProgramError) as refusal:
        integral(scalar)
    assert str(refusal.value) == (
        f"integers have no '{scalar}'; "
        "take +, -, *, comparisons, bits, abs, min, max and whole numbers"
    )


@pytest.mark.parametrize("number", [0.5, float("inf")])
def test_integers_are_whole(number: float) -> None:
    with pytest.raises(ProgramError, match=f"^integers have no '{number}'; "):
        integral(Number(number))


def test_floats_have_no_bits() -> None:
    own = [n for n, f in FUNCTIONS.items() if isinstance(f, Elementary) and f.types == "bits"]
    assert own == ["&", "|", "^", "~", "<<", ">>", "quo"]
    with pytest.raises(ProgramError) as refusal:
        check_floats(parse_scalar("1 + (x0 & x1)"))
    assert str(refusal.value) == "floats have no 'x0 & x1'; compute bits in an integer type"
