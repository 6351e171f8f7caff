"""The functions of elements as C expressions: `ops.elementwise` in the words of <math.h>.

In: a function's name, its parameters and C texts of the operands. Out: a C expression in the
operands' element type.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.common.dtypes import DType

Texts = Callable[[str, str, str, str], str]

_UNARY: dict[str, Texts] = {
    "abs": lambda x, a, b, f: f"fabs{f}({x})",
    "ceil": lambda x, a, b, f: f"ceil{f}({x})",
    "clip": lambda x, a, b, f: f"({x} < {a} ? {a} : {x} > {b} ? {b} : {x})",
    "elu": lambda x, a, b, f: f"({x} < 0 ? {a} * expm1{f}({x}) : {x})",
    "exp": lambda x, a, b, f: f"exp{f}({x})",
    "floor": lambda x, a, b, f: f"floor{f}({x})",
    "hard_sigmoid": lambda x, a, b, f: (
        f"({a} * {x} + {b} < 0 ? 0 : {a} * {x} + {b} > 1 ? 1 : {a} * {x} + {b})"
    ),
    "identity": lambda x, a, b, f: x,
    # Nothing that is computed depends on the sign, so that vectors can do it; a is below 1, not 0.
    "leaky_relu": lambda x, a, b, f: f"({x} < {a} * {x} ? {a} * {x} : {x})",
    "log": lambda x, a, b, f: f"log{f}({x})",
    "neg": lambda x, a, b, f: f"-{x}",
    "reciprocal": lambda x, a, b, f: f"1 / {x}",
    "relu": lambda x, a, b, f: f"({x} < 0 ? 0 : {x})",
    "sigmoid": lambda x, a, b, f: f"1 / (1 + exp{f}(-{x}))",
    "sign": lambda x, a, b, f: f"({x} < 0 ? -1 : {x} > 0 ? 1 : {x})",
    "softplus": lambda x, a, b, f: f"(fmax{f}({x}, 0) + log1p{f}(exp{f}(-fabs{f}({x}))))",
    "sqrt": lambda x, a, b, f: f"sqrt{f}({x})",
    "tanh": lambda x, a, b, f: f"tanh{f}({x})",
}

_BINARY: dict[str, Callable[[str, str], str]] = {
    "add": lambda a, b: f"{a} + {b}",
    "div": lambda a, b: f"{a} / {b}",
    # NaN in the first operand is kept by the test; NaN in the second one makes a > b false.
    "max": lambda a, b: f"({a} > {b} || {a} != {a} ? {a} : {b})",
    "min": lambda a, b: f"({a} < {b} || {a} != {a} ? {a} : {b})",
    "mul": lambda a, b: f"{a} * {b}",
    "sub": lambda a, b: f"{a} - {b}",
}


def unary_text(function: str, alpha: float, beta: float, x: str, kind: DType) -> str:
    """The C expression of a function of `x`, the name of a variable.

    >>> from tilewright.common.dtypes import F32
    >>> unary_text("leaky_relu", 0.1, 0.0, "v", F32)
    '(v < 0.1f * v ? 0.1f * v : v)'
    >>> unary_text("leaky_relu", 2.0, 0.0, "v", F32)
    '(v < 0 ? 2.0f * v : v)'
    >>> unary_text("clip", 6.0, 0.0, "v", F32)
    '(v != v ? v : 0.0f)'
    """
    if function == "leaky_relu" and (alpha == 0 or not alpha <= 1):
        return f"({x} < 0 ? {number(alpha, kind)} * {x} : {x})"
    if function == "clip" and alpha > beta:
        return f"({x} != {x} ? {x} : {number(beta, kind)})"
    suffix = "f" if kind.size_bytes == 4 else ""
    return _UNARY[function](x, number(alpha, kind), number(beta, kind), suffix)


def binary_text(function: str, a: str, b: str) -> str:
    """The C expression of a function of two variables.

    >>> binary_text("max", "v", "w")
    '(v > w || v != v ? v : w)'
    """
    return _BINARY[function](a, b)


def number(value: float, kind: DType) -> str:
    """A number as a C literal.

    >>> from tilewright.common.dtypes import F32, F64
    >>> number(0.5, F32), number(-1e-5, F64), number(float("-inf"), F64)
    ('0.5f', '-1e-05', '-INFINITY')
    """
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if math.isnan(value):
        return "NAN"
    return f"{value!r}f" if kind.size_bytes == 4 else repr(value)
