"""Expressions over elements in C, in the elements' own type.

In: a scalar of `ir.scalar` and C texts of its operands. Out: the C text of its value, and before it
lines that name what the expression has several times. Roots take the place of powers that they
are, since vectors compute them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType
from tilewright.ir.scalar import (
    COMPARISONS,
    FUNCTIONS,
    Apply,
    Element,
    Elementary,
    Number,
    Scalar,
    c_number,
    expanded,
)

_CONDITIONS = (*COMPARISONS, "and", "or", "not")
_ROOTS = {0.5: ("sqrt{f}({x})",), 0.75: ("sqrt{f}({x})", "sqrt{f}(sqrt{f}({x}))")}
"""The factors of a power."""


def write_value(scalar: Scalar, operands: Sequence[str], kind: DType, writer: CWriter) -> str:
    """The C text of an expression, after lines that name its common parts.

    >>> from tilewright.common.dtypes import F32
    >>> from tilewright.ir.scalar import parse_scalar
    >>> writer = CWriter()
    >>> write_value(parse_scalar("0 if x0 + x1 < 0 else x0 + x1"), ("a", "b"), F32, writer)
    '((v0 < 0.0f) ? 0.0f : v0)'
    >>> print(writer.text().strip())
    const float v0 = (a + b);
    >>> write_value(parse_scalar("x0 / pow(2 + x1, 0.75)"), ("a", "b"), F32, writer)
    '(a / (sqrtf((2.0f + b)) * sqrtf(sqrtf((2.0f + b)))))'
    """
    scalar = expanded(scalar)
    repeated = Counter(_parts(scalar))
    names: dict[Scalar, str] = {}

    def text(part: Scalar) -> str:
        match part:
            case Number(value):
                return c_number(value, kind)
            case Element(index):
                return operands[index]
            case Apply(function, arguments):
                if part in names:
                    return names[part]
                found = _applied(function, arguments, [text(a) for a in arguments], kind)
                if repeated[part] == 1 or function in _CONDITIONS:
                    return found
                names[part] = f"v{len(names)}"
                writer.line(f"const {kind.c_name} {names[part]} = {found};")
                return names[part]

    return text(scalar)


def _parts(scalar: Scalar) -> list[Scalar]:
    match scalar:
        case Apply(_, arguments):
            return [scalar, *(part for a in arguments for part in _parts(a))]
        case _:
            return []


def _applied(function: str, arguments: Sequence[Scalar], texts: Sequence[str], kind: DType) -> str:
    suffix = "f" if kind.size_bytes == 4 else ""
    match function, arguments:
        case "pow", (_, Number(exponent)) if exponent in _ROOTS:
            factors = (factor.format(f=suffix, x=texts[0]) for factor in _ROOTS[exponent])
            return f"({' * '.join(factors)})"
        case _:
            own = FUNCTIONS[function]
            assert isinstance(own, Elementary)  # the expression is expanded
            return own.c.format(*texts, f=suffix)
