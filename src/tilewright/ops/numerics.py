"""Element types of an operator: of its operands, its sums and its result.

In: the text of an operator's `dtype`. Out: `Numerics`. The short form is one type for all. The long
form is `operands:sums:result:rounding:overflow`, which needs no quoting in a shell; trailing parts
may be omitted. `i16:i32` has 16-bit operands, sums and results of 32 bits; `u8,i8:i32` names each
operand; `q8.8:q16.16:q8.8` multiplies in fixed point and rounds its sums to 8.8, by default to even
and saturating; `q8.8:q16.16:q8.8:floor:wrap` overrides both. Floats use the short form only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tilewright.common.dtypes import BOOL, FLOATS, DType, dtype
from tilewright.common.errors import ShapeError
from tilewright.common.fixed_point import Array, Integers, Rounding, requantised, rounding_called

_FORM = "operands:sums:result:rounding:overflow, such as i16:i32 or q8.8:q16.16:q8.8:even:saturate"
_TWO = 2
_OVERFLOWS = ("saturate", "wrap")


@dataclass(frozen=True)
class Numerics:
    """The element types of an operator, and the conversion of its sums to its result.

    Sums of integers wrap: they are exact modulo 2 ** bits, in any order. The result is the sum over
    2 ** `shift`, rounded once; if it does not fit its type, it saturates or wraps. Raises
    ShapeError for types that cannot be combined.
    """

    operands: tuple[DType, ...]
    sums: DType
    result: DType
    rounding: Rounding = "even"
    saturate: bool = True

    def __post_init__(self) -> None:
        if self.is_float:
            return
        floats = [kind for kind in (*self.operands, self.result) if kind.is_float]
        if floats:
            raise ShapeError(
                f"element types {self} compute {floats[0]} in {self.sums}",
                fix="compute in a float: name it in the middle, as in i32,f32:f32",
            )
        if self.shift < 0:
            raise ShapeError(
                f"element types {self}: sums of {self.sums} have {self.sums.fraction_bits} "
                f"fraction bits, fewer than the {self.result.fraction_bits} of the result",
                fix="give the sums as many, or the result fewer",
            )

    @property
    def is_float(self) -> bool:
        """True if sums are floats."""
        return self.sums.is_float

    @property
    def is_mixed(self) -> bool:
        """True if sums are floats and some operand or the result has another type."""
        return self.is_float and {*self.operands, self.result} - {self.sums} != set()

    @property
    def in_reals(self) -> bool:
        """True if fixed-point elements represent real numbers, from which the result is computed
        and rounded once, to nearest and saturating: `q8.8:f64:q8.8`.
        """
        return self.is_float and all(k.kind == "fixed" for k in (*self.operands, self.result))

    @property
    def units(self) -> DType:
        """The type that a machine's units compute in: the type of the sums, or the fixed-point type
        of the result where elements represent real numbers.
        """
        return self.result if self.in_reals else self.sums

    @property
    def shift(self) -> int:
        """Fraction bits of the sums beyond those of the result."""
        return self.sums.fraction_bits - self.result.fraction_bits

    @property
    def requantises(self) -> bool:
        """True if the result has another type than the sums."""
        return self.sums != self.result

    def __str__(self) -> str:
        """The shortest text that `parse` turns back into an equal value.

        >>> str(Numerics.parse("i16,i16:i32:i32", 2))
        'i16:i32'
        """
        same = len(set(self.operands)) == 1
        operands = str(self.operands[0]) if same else ",".join(map(str, self.operands))
        overflow = "saturate" if self.saturate else "wrap"
        parts = [operands, str(self.sums), str(self.result), self.rounding, overflow]
        while len(parts) > 1 and parts[-1] == _default(parts[:-1]):
            parts.pop()
        return ":".join(parts)

    @classmethod
    def parse(cls, text: str, operands: int, *, mixed: bool = False) -> Numerics:
        """The element types of an operator with `operands` operands; floats share one type for all
        unless they may be `mixed`.

        Raises ShapeError for an unknown type, a list of another length, or types that cannot be
        combined.
        """
        return _parse(text, operands, mixed=mixed)

    @classmethod
    def of(cls, text: str) -> Numerics:
        """The element types that a text names, for as many operands as it lists."""
        names = text.partition(":")[0].count(",") + 1
        return cls.parse(text, names if names > 1 else _TWO, mixed=True)

    def write_back(self, sums: Integers, divisor: int | Integers = 1) -> Array:
        """The result of exact integer `sums`: wrapped to their type, divided by `divisor` and
        2 ** `shift`, rounded once.
        """
        if not self.requantises and isinstance(divisor, int) and divisor == 1:
            return np.asarray(sums.astype(self.result.numpy))  # u64 exceeds NumPy's signed words
        kept = sums.astype(self.sums.numpy).astype(np.int64)
        if self.result == BOOL:
            return np.asarray(kept != 0)
        whole, to = divisor << self.shift, self.result.numpy
        return requantised(kept, whole, self.rounding, saturate=self.saturate, to=to)


def sums_called(text: str) -> str:
    """The name of the sums' type in an operator's `dtype`.

    >>> sums_called("f32"), sums_called("u8,i8:i32"), sums_called("i16:i32:i16")
    ('f32', 'i32', 'i32')
    """
    return text.split(":")[1] if ":" in text else text


def real_types(kind: str) -> str:
    """The `dtype` of an operator that computes real numbers in elements of one type.

    >>> real_types("f32"), real_types("q8.8")
    ('f32', 'q8.8:f64:q8.8')
    """
    return f"{kind}:f64:{kind}" if dtype(kind).kind == "fixed" else kind


def partial_types(numerics: Numerics) -> str:
    """The `dtype` of an operator whose result is its plain sums, for others to add to.

    >>> partial_types(Numerics.parse("i16:i32:i16", 2)), partial_types(Numerics.parse("f32", 2))
    ('i16:i32', 'f32')
    """
    return str(replace(numerics, result=numerics.sums, rounding="even", saturate=True))


def require_products(kind: str, numerics: Numerics) -> None:
    """Raise ShapeError unless sums represent each product of the first two operands exactly."""
    if numerics.is_float:
        return
    a, b = numerics.operands[:2]
    if numerics.sums.fraction_bits != a.fraction_bits + b.fraction_bits:
        raise ShapeError(
            f"{kind}: products of {a} and {b} have {a.fraction_bits + b.fraction_bits} fraction "
            f"bits, sums of {numerics.sums} have {numerics.sums.fraction_bits}",
            fix="give the sums as many",
        )
    extremes = [x * y for x in a.limits for y in b.limits]
    low, high = numerics.sums.limits
    if min(extremes) < low or max(extremes) > high:
        raise ShapeError(
            f"{kind}: sums of {numerics.sums} do not hold every product of {a} and {b}",
            fix="sums of more bits, such as i8:i32, i16:i32 or i32:i64",
        )


def require_alike(kind: str, numerics: Numerics) -> None:
    """Raise ShapeError unless operands and sums have equal fraction bits."""
    if numerics.is_float:
        return
    for operand in numerics.operands:
        if operand.fraction_bits != numerics.sums.fraction_bits:
            raise ShapeError(
                f"{kind}: an operand of {operand} and sums of {numerics.sums} differ in their "
                "fraction bits",
                fix="give both as many",
            )


def require_one_type(kind: str, numerics: Numerics) -> None:
    """Raise ShapeError unless all types are equal: the operator only moves elements."""
    if len({*numerics.operands, numerics.sums, numerics.result}) > 1:
        raise ShapeError(f"{kind} changes no element and takes one type, found {numerics}")


def require_float(kind: str, numerics: Numerics) -> None:
    """Raise ShapeError for integers and fixed point."""
    if not numerics.is_float:
        known = ", ".join(known.name for known in FLOATS)
        raise ShapeError(
            f"{kind} computes in floating point, found the element type {numerics}",
            fix=f"use one of {known}",
        )


def _default(before: list[str]) -> str:
    """The default of the next part, if the text ends after the parts `before`."""
    match len(before):
        case 1 | 2:
            return before[-1]
        case 3:
            return "even"
        case _:
            return "saturate"


@cache
def _parse(text: str, operands: int, *, mixed: bool) -> Numerics:
    found = _parse_numerics(text, operands)
    if found.is_mixed and not (mixed or found.in_reals):
        one = next(k for k in (*found.operands, found.sums, found.result) if k.is_float)
        raise ShapeError(
            f"element types {found} mix {one} with another type",
            fix="floats take one type for operands, sums and result",
        )
    return found


def _parse_numerics(text: str, operands: int) -> Numerics:
    parts = text.split(":")
    if len(parts) > 5:
        raise ShapeError(f"element types {text!r} have {len(parts)} parts", fix=f"write {_FORM}")
    names = parts[0].split(",")
    if len(names) > 1 and len(parts) == 1:
        raise ShapeError(f"element types {text!r} lack that of the sums", fix=f"write {_FORM}")
    if len(names) == 1:
        names *= operands
    if len(names) != operands:
        raise ShapeError(
            f"element types {text!r} name {len(names)} operands, the operator takes {operands}"
        )
    while len(parts) < 5:
        parts.append(_default(parts))
    rounding, overflow = parts[3:]
    if overflow not in _OVERFLOWS:
        raise ShapeError(
            f"unknown treatment of overflow {overflow!r}", fix=f"use one of {', '.join(_OVERFLOWS)}"
        )
    types = tuple(dtype(name) for name in names)
    sums, result = dtype(parts[1]), dtype(parts[2])
    return Numerics(types, sums, result, rounding_called(rounding), overflow == "saturate")
