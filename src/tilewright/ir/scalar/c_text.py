"""Expressions over elements as C: floats in double or single precision, and integers, which wrap to
the type that they are computed in.

Ring operations may be computed in any wider type. For other functions, operands are wrapped first,
so that results are exact modulo 2 ** bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from tilewright.common.dtypes import BF16, BOOL, F32, F64, U64, DType, float_limits
from tilewright.common.errors import ProgramError
from tilewright.ir.scalar.expression import Apply, Array, Element, Number, Scalar, expanded
from tilewright.ir.scalar.functions import FUNCTIONS, Elementary

_INT_BYTES = 4


def integral(scalar: Scalar) -> Scalar:
    """The expression in elementary functions and integer constants, to be evaluated on integers.

    Raises ProgramError for functions that are undefined on wrapping integers, and for fractions.
    """
    match expanded(scalar):
        case Number(number) if isfinite(number) and number == int(number):
            return Number(int(number))
        case Element() as element:
            return element
        case Apply("abs", (a,)):
            value = integral(a)
            below = Apply("<", (value, Number(0)))
            return Apply("if", (below, Apply("negative", (value,)), value))
        case Apply("or", (a, Apply("!=", (x, same)))) if x == same:  # x != x tests for NaN
            return integral(a)
        case Apply(function, arguments) if _elementary(function).types != "floats":
            return Apply(function, tuple(map(integral, arguments)))
        case _:
            raise ProgramError(
                f"integers have no {str(scalar)[:60]!r}",
                fix="take +, -, *, comparisons, bits, abs, min, max and whole numbers",
            )


def check_floats(scalar: Scalar) -> None:
    """Raise ProgramError for bitwise functions, which are undefined on floats."""
    match expanded(scalar):
        case Apply(function, arguments):
            if _elementary(function).types == "bits":
                raise ProgramError(
                    f"floats have no {str(scalar)[:60]!r}", fix="compute bits in an integer type"
                )
            for argument in arguments:
                check_floats(argument)
        case _:
            pass


def wrapped(scalar: Scalar, inputs: Sequence[Array], kind: DType) -> Array:
    """The expression over integers, computed in the type `kind`."""
    with np.errstate(all="ignore"):  # wrapping at 64 bits keeps the lower bits
        found = _value(integral(scalar), [x.astype(np.int64) for x in inputs], kind)
        return np.asarray(found, np.int64).astype(kind.numpy)


def _value(scalar: Scalar, inputs: Sequence[Array], kind: DType) -> Any:
    match scalar:
        case Apply(function, arguments):
            own = _elementary(function)
            given = [_value(a, inputs, kind) for a in arguments]
            if own.types != "ring":
                given = [x if isinstance(x, int) else _as_held(x, kind) for x in given]
            wide = np.uint64 if kind == U64 and own.types != "ring" else np.int64
            return own.value(*(np.asarray(x).astype(wide) for x in given))
        case _:
            return scalar.value(inputs)


def _as_held(values: Array, kind: DType) -> Array:
    found: Array = np.asarray(values).astype(np.int64).astype(kind.numpy)
    return found


def c_text_of_integers(scalar: Scalar, operands: Sequence[str], kind: DType) -> str:
    """The expression in C over `operands`, the texts of integers, computed in an unsigned type of
    at least the width of `kind`.
    """
    wide = "unsigned long long" if kind.size_bytes > _INT_BYTES else "unsigned"

    def text(scalar: Scalar) -> str:
        match scalar:
            case Number(number):
                return str(number) if number >= 0 else f"({number})"
            case Element(index):
                return f"({wide}){operands[index]}"
            case Apply(function, arguments):
                own = _elementary(function)
                given = list(map(text, arguments))
                if own.types != "ring":
                    given = [
                        t if isinstance(a, Number) else f"({kind.c_name})({t})"
                        for a, t in zip(arguments, given, strict=True)
                    ]
                return own.c.format(*given)

    return text(integral(scalar))


def _elementary(function: str) -> Elementary:
    return cast(Elementary, FUNCTIONS[function])


LIBRARY_FUNCTIONS = tuple(
    own.c.partition("{f}")[0]
    for own in FUNCTIONS.values()
    if isinstance(own, Elementary) and "{f}" in own.c
)
"""The functions of <math.h> that expressions call, by their double-precision names."""


def c_text(
    scalar: Scalar,
    operands: Sequence[str],
    kind: DType = F64,
    called: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The expression in C over `operands`, the texts of values of type `kind`, which it computes
    in. Functions in `called` become calls of the names there, others calls of <math.h>.

    >>> from tilewright.ir.scalar import parse_scalar
    >>> c_text(parse_scalar("elu(x0, 0.5)"), ("v",), F32)
    '((v < 0.0f) ? (0.5f * expm1f(v)) : v)'
    """
    suffix = "f" if kind == F32 else ""

    def text(scalar: Scalar) -> str:
        match scalar:
            case Number(number):
                return c_number(number, kind)
            case Element(index):
                return operands[index]
            case Apply(function, arguments):
                if function in called:
                    return f"{called[function]}({', '.join(map(text, arguments))})"
                own = FUNCTIONS[function]
                assert isinstance(own, Elementary)
                return own.c.format(*map(text, arguments), f=suffix)

    return text(expanded(scalar, tuple(called)))


def c_real(element: str, kind: DType, to: DType = F64) -> str:
    """The C text of an element of one type, converted to the float type that it is computed in."""
    return f"tw_of_bf16({element})" if kind == BF16 else f"({to.c_name}){element}"


def c_converted(value: str, kind: DType) -> str:
    """The C text of a floating-point value as an element of a type, as `common.dtypes.converted`.

    >>> from tilewright.common.dtypes import U8
    >>> c_converted("v", U8), c_converted("v", BOOL)
    ('(unsigned char)fmin(fmax(v, 0.0), 255.0)', '(_Bool)(v)')
    """
    if kind == BF16:
        return f"tw_to_bf16({value})"
    if kind.is_float or kind == BOOL:
        return f"({kind.c_name})({value})"
    low, high = map(c_number, float_limits(kind))
    return f"({kind.c_name})fmin(fmax({value}, {low}), {high})"


def c_number(number: float, kind: DType = F64) -> str:
    """The C literal of a floating-point number; infinity is a macro of `<math.h>`.

    >>> c_number(0.5, F32), c_number(-1e-5), c_number(float("-inf"), F32)
    ('0.5f', '(-1e-05)', '(-INFINITY)')
    """
    if isnan(number):
        return "NAN"
    text = repr(number)
    text = text.replace("inf", "INFINITY") if "inf" in text else text + "f" * (kind == F32)
    return text if number >= 0 else f"({text})"
