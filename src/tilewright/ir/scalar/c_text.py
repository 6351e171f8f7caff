"""Expressions over elements as C, in double or single precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from types import MappingProxyType

from tilewright.common.dtypes import BF16, BOOL, F32, F64, DType, float_limits
from tilewright.ir.scalar.expression import Apply, Element, Number, Scalar, expanded
from tilewright.ir.scalar.functions import FUNCTIONS, Elementary

LIBRARY_FUNCTIONS = tuple(
    own.c.partition("{f}")[0]
    for own in FUNCTIONS.values()
    if isinstance(own, Elementary) and "{f}" in own.c
)
"""The names in <math.h> of what expressions call, in double precision."""


def c_text(
    scalar: Scalar,
    operands: Sequence[str],
    kind: DType = F64,
    called: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The expression in C over `operands`, texts of this floating-point type, which it computes in.
    Functions that `called` names are calls of those, others of <math.h>.

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

    return text(expanded(scalar))


def c_real(element: str, kind: DType, to: DType = F64) -> str:
    """The C text of an element of a type as a float of another, which it is computed in."""
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
    """The literal of a floating-point number in C, in which infinity is a macro of `<math.h>`.

    >>> c_number(0.5, F32), c_number(-1e-5), c_number(float("-inf"), F32)
    ('0.5f', '(-1e-05)', '(-INFINITY)')
    """
    if isnan(number):
        return "NAN"
    text = repr(number)
    text = text.replace("inf", "INFINITY") if "inf" in text else text + "f" * (kind == F32)
    return text if number >= 0 else f"({text})"
