"""Element types of tensors, with their names in the IR, in NumPy and in generated C.

Floats, integers, truth values, and fixed point: `q8.8` is an integer of 16 bits that counts steps
of 1/256. A fixed-point type is stored, moved and multiplied as its integer. Truth values are the
integers 0 and 1; any non-zero value converts to 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from ml_dtypes import bfloat16

from tilewright.common.errors import ShapeError

Kind = Literal["float", "integer", "fixed"]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type: its name in programs and on the command line, in NumPy and in C.

    An element of a `fixed` type represents its integer over 2 ** `fraction_bits`.
    """

    name: str
    size_bytes: int
    numpy: np.dtype[Any]
    c_name: str
    kind: Kind = "float"
    fraction_bits: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """True for floating point, in which results are rounded."""
        return self.kind == "float"

    @property
    def computed(self) -> DType:
        """The type that elements are computed in: f32 for 16-bit floats, else the type itself."""
        return F32 if self in HALVES else self

    @property
    def nothing(self) -> float:
        """Value that marks elements that are not computed yet: NaN, or the least integer."""
        return np.nan if self.is_float else self.limits[0]

    @property
    def stored(self) -> DType:
        """The type in memory: the type itself, or the integer type of fixed point."""
        return self if self.kind != "fixed" else _STORED_IN[8 * self.size_bytes]

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer of an exact type.

        >>> dtype("u8").limits, dtype("q4.4").limits
        ((0, 255), (-128, 127))
        """
        if self == BOOL:
            return 0, 1
        found = np.iinfo(self.numpy)
        return int(found.min), int(found.max)


F64 = DType("f64", 8, np.dtype(np.float64), "double")
F32 = DType("f32", 4, np.dtype(np.float32), "float")
F16 = DType("f16", 2, np.dtype(np.float16), "_Float16")
BF16 = DType("bf16", 2, np.dtype(bfloat16), "tw_bf16")
I8 = DType("i8", 1, np.dtype(np.int8), "signed char", "integer")
U8 = DType("u8", 1, np.dtype(np.uint8), "unsigned char", "integer")
I16 = DType("i16", 2, np.dtype(np.int16), "short", "integer")
I32 = DType("i32", 4, np.dtype(np.int32), "int", "integer")
I64 = DType("i64", 8, np.dtype(np.int64), "long", "integer")
U16 = DType("u16", 2, np.dtype(np.uint16), "unsigned short", "integer")
U32 = DType("u32", 4, np.dtype(np.uint32), "unsigned", "integer")
U64 = DType("u64", 8, np.dtype(np.uint64), "unsigned long", "integer")
BOOL = DType("bool", 1, np.dtype(np.bool_), "_Bool", "integer")

FLOATS: tuple[DType, ...] = (F64, F32)
"""Floats that cores compute in."""
HALVES: tuple[DType, ...] = (F16, BF16)
"""Floats that are only stored; computation uses f32."""
INTEGERS: tuple[DType, ...] = (I8, U8, I16, U16, I32, U32, I64, U64)
DTYPES: tuple[DType, ...] = (*FLOATS, *HALVES, *INTEGERS, BOOL)
"""Types with fixed names; fixed-point types are named by their bits."""

KNOWN_NAMES = ", ".join(known.name for known in DTYPES) + " or fixed point, as q8.8"
"""Names that messages suggest for an unknown one."""


def converted(values: Any, kind: DType) -> Any:
    """Doubles converted to a type. Floats are rounded; integers truncate and saturate, and NaN
    becomes the least integer; non-zero values become true. Fixed point rounds to nearest, ties to
    even.

    >>> converted(np.array([-2.7, 300.0, np.nan]), U8).tolist()
    [0, 255, 0]
    >>> converted(np.array([-2.7, 300.0, 0.5 / 256]), dtype("q8.8")).tolist()
    [-691, 32767, 0]
    """
    if kind.is_float:
        return np.asarray(values, kind.numpy)
    if kind == BOOL:
        return values != 0
    low, high = float_limits(kind)
    if kind.kind == "fixed":
        values = np.rint(np.asarray(values) * 2.0**kind.fraction_bits)
    return np.fmin(np.fmax(values, low), high).astype(kind.numpy)


def float_limits(kind: DType) -> tuple[float, float]:
    """The least and the largest double that an integer type can represent."""
    low, high = kind.limits
    top = float(high)
    return float(low), top if int(top) <= high else float(np.nextafter(top, 0))


_FIXED = re.compile(r"q([0-9]{1,2})\.([0-9]{1,2})", re.ASCII)
_STORED_IN = {8 * stored.size_bytes: stored for stored in (I8, I16, I32, I64)}


def main_type(names: Iterable[str]) -> str:
    """The widest float among types, else the widest of them: the type that a network's memory is
    counted in.

    >>> main_type(["bool", "f32", "i64"]), main_type(["bool", "i32"])
    ('f32', 'i32')
    """
    kinds = sorted({dtype(name) for name in names}, key=lambda kind: kind.name)
    return max(kinds, key=lambda kind: (kind.is_float, kind.size_bytes)).name


@cache
def dtype_of(numpy: np.dtype[Any]) -> DType:
    """The element type that is this one in NumPy."""
    return next(kind for kind in DTYPES if kind.numpy == numpy)


@cache
def dtype_or_none(name: str) -> DType | None:
    """The element type called `name`, or None.

    >>> dtype_or_none("q8.8").size_bytes, dtype_or_none("q8.8").fraction_bits
    (2, 8)
    """
    for candidate in DTYPES:
        if candidate.name == name:
            return candidate
    match = _FIXED.fullmatch(name)
    if match is None:
        return None
    whole, fraction = int(match[1]), int(match[2])
    stored = _STORED_IN.get(whole + fraction)
    if stored is None or whole == 0 or name != f"q{whole}.{fraction}":
        return None
    return DType(name, stored.size_bytes, stored.numpy, stored.c_name, "fixed", fraction)


def dtype(name: str) -> DType:
    """The element type called `name`. Raises ShapeError for unknown names.

    The bits of a fixed-point type, before the point with the sign and after it, are 8, 16, 32 or 64
    together.

    >>> dtype("f32").size_bytes
    4
    """
    found = dtype_or_none(name)
    if found is None:
        raise ShapeError(f"unknown element type {name!r}", fix=f"use one of {KNOWN_NAMES}")
    return found
