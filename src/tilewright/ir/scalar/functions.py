"""The table of scalar functions: one row defines a function completely.

An *elementary* function is implemented directly: in NumPy, in C, and by a routine in each family
that has one; its `operations` are the cost of one vector of results. A *composite* function is an
expression over others, from which all of this follows. So a new function is one row.

Truth values are 1 and 0; any non-zero value counts as true. NaN fails every comparison but `!=`.
`%` has the sign of the divisor as in Python (a zero has the dividend's), `fmod` the sign of the
dividend as in C; `quo` and `rem` are integer quotients towards zero and their remainders;
`rem_floor` has the sign of the divisor; `x // y` is the floor of the rounded quotient; `round`
rounds halves to even; sinh and cosh of doubles are infinite where exp is, from 709.79 on.

A derivative follows the branch that yields the value: the second operand's for `max` and `min` of
equal operands, x's for `relu` at 0. Derivatives of `abs` and of steps are 0 at the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tilewright.ir.scalar.error_function import error_function

Types = Literal["floats", "ring", "exact", "bits"]
"""The element types that a function is defined on. All but `floats` include integers, which wrap: a
`ring` function may wrap its operands at any time without changing the result modulo 2 ** bits; an
`exact` one needs operands wrapped to their type first. Functions of `bits` are exact, too, but
undefined on floats.
"""

_ROUNDING, _DIVISION, _SERIES = 2, 8, 20
"""Vector operations of rounding, of a quotient or a root, and of a function computed by range
reduction, polynomial and scaling. Assumptions: no measurement is published for these cores."""
IF, OR, AND, NOT, COMPARE, ANY_BIT, ODD_BIT, BOTH_BITS, SHIFT, SUM, PRODUCT, SIGN, CALL = range(13)
"""Precedence levels of function texts, as in Python."""


@dataclass(frozen=True)
class Function:
    """A function of `arity` operands: its text form with a slot per operand, the precedence level
    of that text, and its derivative with respect to each operand, as an expression over the
    operands. Without `derivatives`, there are none, or those of a composite's expression apply. In
    a network's operator, the last `parameters` operands are constants, like `leaky_relu`'s slope.
    """

    name: str
    arity: int
    derivatives: tuple[str, ...]
    text: str
    level: int = CALL
    parameters: int = 0

    @property
    def is_called(self) -> bool:
        """True if the text form is a call, with the operands in parentheses."""
        return self.level == CALL


@dataclass(frozen=True)
class Elementary(Function):
    """A function with its own implementation: on arrays (`value`), in C (`c`, where `{f}` is the
    suffix of single-precision functions of <math.h>), and its cost in vector operations.
    """

    value: Callable[..., Any] = np.positive
    c: str = "{}"
    operations: int = 1
    types: Types = "floats"


@dataclass(frozen=True)
class Composite(Function):
    """An expression over simpler functions."""

    expression: str = "x0"


def composite(
    name: str, arity: int, expression: str, *derivatives: str, parameters: int = 0
) -> Composite:
    """A function as an expression over its operands x0, x1, ...; its derivatives are derived from
    the expression unless given.

    >>> composite("square", 1, "x0 * x0").text
    'square({})'
    """
    text = f"{name}({', '.join(['{}'] * arity)})"
    return Composite(name, arity, derivatives, text, CALL, parameters, expression)


def _call(
    name: str, value: Callable[..., Any], c: str, operations: int, *derivatives: str, arity: int = 1
) -> Elementary:
    operands = ", ".join(["{}"] * arity)
    text, in_c = f"{name}({operands})", f"{c}{{f}}({operands})"
    return Elementary(name, arity, derivatives, text, CALL, 0, value, in_c, operations)


def _infix(
    name: str,
    level: int,
    value: Callable[..., Any],
    types: Types,
    *derivatives: str,
    operations: int = 1,
    c: str = "",
) -> Elementary:
    text = f"{{}} {name} {{}}"
    return Elementary(
        name, 2, derivatives, text, level, 0, value, c or f"({text})", operations, types
    )


def _prefix(
    name: str, symbol: str, level: int, value: Callable[..., Any], types: Types, *derivatives: str
) -> Elementary:
    sign = "!" if symbol == "not " else symbol
    return Elementary(
        name, 1, derivatives, f"{symbol}{{}}", level, 0, value, f"({sign}{{}})", 1, types
    )


COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_CONSTANT = ("0", "0")
_SHIFTED_LEFT = "({1} & ~63 ? 0 : (unsigned long long){0} << {1})"
_SHIFTED_RIGHT = "((long long){0} >> ({1} & ~63 ? 63 : {1}))"
"""Shift counts below 0 or beyond the bits leave only the sign, as in NumPy."""


def _quotient(a: Any, b: Any) -> Any:
    """Integer quotients towards zero; division by 0 yields 0."""
    by = np.where(b == 0, 1, b)
    down = a // by
    return np.where(b == 0, 0, down + ((a != down * by) & ((a < 0) != (by < 0))).astype(down.dtype))


_OPERATORS = (
    _infix("+", SUM, np.add, "ring", "1", "1"),
    _infix("-", SUM, np.subtract, "ring", "1", "-1"),
    _infix("*", PRODUCT, np.multiply, "ring", "x1", "x0"),
    _infix("/", PRODUCT, np.divide, "floats", "1 / x1", "-(x0 / x1) / x1", operations=_DIVISION),
    _prefix("negative", "-", SIGN, np.negative, "ring", "-1"),
    _infix("<", COMPARE, np.less, "exact", *_CONSTANT),
    _infix("<=", COMPARE, np.less_equal, "exact", *_CONSTANT),
    _infix(">", COMPARE, np.greater, "exact", *_CONSTANT),
    _infix(">=", COMPARE, np.greater_equal, "exact", *_CONSTANT),
    _infix("==", COMPARE, np.equal, "exact", *_CONSTANT),
    _infix("!=", COMPARE, np.not_equal, "exact", *_CONSTANT),
    _infix("and", AND, np.logical_and, "exact", *_CONSTANT, c="({} && {})"),
    _infix("or", OR, np.logical_or, "exact", *_CONSTANT, c="({} || {})"),
    _prefix("not", "not ", NOT, np.logical_not, "exact", "0"),
    _infix("&", BOTH_BITS, np.bitwise_and, "bits"),
    _infix("|", ANY_BIT, np.bitwise_or, "bits"),
    _infix("^", ODD_BIT, np.bitwise_xor, "bits"),
    _prefix("~", "~", SIGN, np.invert, "bits"),
    _infix("<<", SHIFT, np.left_shift, "bits", c=_SHIFTED_LEFT),
    _infix(">>", SHIFT, np.right_shift, "bits", c=_SHIFTED_RIGHT),
    Elementary(
        "if", 3, (), "{1} if {0} else {2}", IF, 0, np.where, "({} ? {} : {})", types="exact"
    ),
    Composite("//", 2, _CONSTANT, "{} // {}", PRODUCT, 0, "floor(x0 / x1)"),
    Composite(
        "%", 2, ("1", "-floor(x0 / x1)"), "{} % {}", PRODUCT, 0,
        "fmod(x0, x1) + x1 if fmod(x0, x1) != 0 and (fmod(x0, x1) < 0) != (x1 < 0) "
        "else fmod(x0, x1)",
    ),
)  # fmt: skip

_ELEMENTARY = (
    Elementary("abs", 1, ("sign(x0)",), "abs({})", CALL, 0, np.abs, "fabs{f}({})", types="exact"),
    _call("atan", np.arctan, "atan", _SERIES + _DIVISION, "1 / (1 + x0 * x0)"),
    _call("ceil", np.ceil, "ceil", _ROUNDING, "0"),
    _call("cos", np.cos, "cos", _SERIES, "-sin(x0)"),
    _call("erf", error_function, "erf", 2 * _SERIES, "1.1283791670955126 * exp(-(x0 * x0))"),
    _call("exp", np.exp, "exp", _SERIES, "exp(x0)"),
    _call("expm1", np.expm1, "expm1", _SERIES, "exp(x0)"),
    _call("floor", np.floor, "floor", _ROUNDING, "0"),
    _call("fmod", np.fmod, "fmod", 2 * _DIVISION, "1", "-trunc(x0 / x1)", arity=2),
    _call("log", np.log, "log", _SERIES, "1 / x0"),
    _call("log1p", np.log1p, "log1p", _SERIES, "1 / (1 + x0)"),
    _call(
        "pow", np.power, "pow", 2 * _SERIES, "x1 * pow(x0, x1 - 1)",
        "0 if x0 == 0 else pow(x0, x1) * log(x0)", arity=2,
    ),
    Elementary(
        "quo", 2, (), "quo({}, {})", CALL, 0, _quotient,
        "({1} == 0 ? 0 : {1} < 0 && {1} + 1 == 0 ? 0ull - {0} : {0} / {1})", 2 * _DIVISION, "bits",
    ),
    _call("round", np.rint, "rint", _ROUNDING, "0"),
    _call("sin", np.sin, "sin", _SERIES, "cos(x0)"),
    _call("sqrt", np.sqrt, "sqrt", _DIVISION, "0.5 / sqrt(x0)"),
    _call("tanh", np.tanh, "tanh", _SERIES + _DIVISION, "1 - tanh(x0) * tanh(x0)"),
)  # fmt: skip

_FAR = "0.6931471805599453 + log"
"""log 2x, the asymptote of asinh and acosh, used where x * x would overflow."""
_COMPOSITE = (
    composite("acos", 1, "2 * atan(sqrt((1 - x0) / (1 + x0)))", "-1 / sqrt((1 - x0) * (1 + x0))"),
    composite(
        "acosh", 1, f"{_FAR}(x0) if x0 > 1e8 else log1p(x0 - 1 + sqrt(x0 - 1) * sqrt(x0 + 1))",
        "1 / (sqrt(x0 - 1) * sqrt(x0 + 1))",
    ),
    composite("add", 2, "x0 + x1"),
    composite("asin", 1, "atan(x0 / sqrt((1 - x0) * (1 + x0)))", "1 / sqrt((1 - x0) * (1 + x0))"),
    composite(
        "asinh", 1, "sign(x0) * "
        f"({_FAR}(abs(x0)) if abs(x0) > 1e8 else "
        "log1p(abs(x0) + x0 * x0 / (1 + sqrt(1 + x0 * x0))))",
        "1 / sqrt(1 + x0 * x0)",
    ),
    composite("atanh", 1, "0.5 * (log1p(x0) - log1p(-x0))", "1 / ((1 - x0) * (1 + x0))"),
    composite("celu", 2, "x1 * expm1(x0 / x1) if x0 < 0 else x0", parameters=1),
    composite(
        "clip", 3, "(x0 if x0 != x0 else x2) if x1 > x2 else x2 if x0 > x2 else "
        "x1 if x0 < x1 else x0", parameters=2,
    ),
    composite("cosh", 1, "0.5 * (exp(x0) + exp(-x0))", "sinh(x0)"),
    composite("div", 2, "x0 / x1"),
    composite("elu", 2, "x1 * expm1(x0) if x0 < 0 else x0", parameters=1),
    composite("gelu", 1, "0.5 * x0 * (1 + erf(0.7071067811865476 * x0))"),
    composite(
        "gelu_tanh", 1,
        "0.5 * x0 * (1 + tanh(0.7978845608028654 * (x0 + 0.044715 * (x0 * x0 * x0))))",
    ),
    composite(
        "hard_sigmoid", 3, "1 if x1 * x0 + x2 > 1 else 0 if x1 * x0 + x2 < 0 else x1 * x0 + x2",
        parameters=2,
    ),
    composite("hard_swish", 1, "x0 * hard_sigmoid(x0, 0.16666666666666666, 0.5)"),
    composite("identity", 1, "x0"),
    composite("leaky_relu", 2, "x1 * x0 if x0 < 0 else x0", parameters=1),
    composite("max", 2, "x0 if x0 > x1 or x0 != x0 else x1"),
    composite("min", 2, "x0 if x1 > x0 or x0 != x0 else x1"),
    composite("mish", 1, "x0 * tanh(softplus(x0))"),
    composite("mul", 2, "x0 * x1"),
    composite("neg", 1, "-x0"),
    composite("prelu", 2, "x1 * x0 if x0 < 0 else x0"),
    composite("reciprocal", 1, "1 / x0"),
    composite("rem", 2, "x0 - quo(x0, x1) * x1"),
    composite(
        "rem_floor", 2, "rem(x0, x1) + x1 if rem(x0, x1) != 0 and (rem(x0, x1) < 0) != (x1 < 0) "
        "else rem(x0, x1)",
    ),
    composite("relu", 1, "0 if x0 < 0 else x0"),
    composite("selu", 3, "x2 * (x1 * expm1(x0) if x0 < 0 else x0)", parameters=2),
    composite(
        "shrink", 3, "x0 + x2 if x0 < -x1 else x0 - x2 if x0 > x1 else 0", parameters=2
    ),
    composite("sigmoid", 1, "1 / (1 + exp(-x0))", "sigmoid(x0) * sigmoid(-x0)"),
    composite("sign", 1, "-1 if x0 < 0 else 1 if x0 > 0 else x0", "0"),
    composite("sinh", 1, "0.5 * (expm1(x0) - expm1(-x0))", "cosh(x0)"),
    composite("softplus", 1, "log1p(exp(-abs(x0))) + (0 if x0 < 0 else x0)", "sigmoid(x0)"),
    composite("softsign", 1, "x0 / (1 + abs(x0))"),
    composite("sub", 2, "x0 - x1"),
    composite("swish", 2, "x0 * sigmoid(x1 * x0)", parameters=1),
    composite("tan", 1, "sin(x0) / cos(x0)", "1 + tan(x0) * tan(x0)"),
    composite("thresholded_relu", 2, "x0 if x0 > x1 else 0", parameters=1),
    composite("trunc", 1, "ceil(x0) if x0 < 0 else floor(x0)", "0"),
)  # fmt: skip

FUNCTIONS: dict[str, Elementary | Composite] = {
    function.name: function for function in (*_OPERATORS, *_ELEMENTARY, *_COMPOSITE)
}
"""Every function by name. Entries added at run time are known everywhere from then on."""
