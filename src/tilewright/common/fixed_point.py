"""Exact arithmetic of integer and fixed-point elements: wide products, one rounding at write-back.

In: arrays of integers. Out: arrays of integers. Sums are modulo 2^64, so the bits of a narrower sum
do not depend on the order of additions or the number of threads. `requantised` is the only
rounding: division, rounding, then saturation or wrapping.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ShapeError

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Rounding = Literal["even", "half_up", "floor", "zero"]
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)
"""To nearest with ties to even or up, down, and towards zero."""

_EXACT_IN_DOUBLE = 2**53
EXACT_IN_SINGLE = 2**24
"""Largest magnitude up to which single precision represents all integers."""


def exact_product(a: Array, b: Array) -> Integers:
    """The matrix product `a @ b` of integer arrays modulo 2^64.

    BLAS computes it if no sum can exceed the exact range of a float type.
    """
    largest = _magnitude(a) * _magnitude(b) * a.shape[-1]
    if largest < _EXACT_IN_DOUBLE:
        kind = np.float32 if largest <= EXACT_IN_SINGLE else np.float64
        found: Array = np.matmul(a.astype(kind), b.astype(kind))
        return found.astype(np.int64)
    result: Integers = np.matmul(a.astype(np.int64), b.astype(np.int64))
    return result


def _magnitude(a: Array) -> int:
    return max(-int(np.iinfo(a.dtype).min), int(np.iinfo(a.dtype).max))


def rounding_called(name: str) -> Rounding:
    """The rounding called `name`. Raises ShapeError for unknown ones."""
    for known in ROUNDINGS:
        if known == name:
            return known
    raise ShapeError(f"unknown rounding {name!r}", fix=f"use one of {', '.join(ROUNDINGS)}")


def requantised(
    values: Integers,
    divisor: int | Integers,
    rounding: Rounding,
    *,
    saturate: bool,
    to: np.dtype[Any],
) -> Array:
    """`values` over the positive `divisor`, rounded once, as integers of the NumPy type `to`.

    Results outside the range of `to` become its nearest limit if they `saturate`, else they wrap.

    >>> to = np.dtype(np.int8)
    >>> requantised(np.array([3, 5, -3, 999]), 2, "even", saturate=True, to=to).tolist()
    [2, 2, -2, 127]
    """
    down, rest = np.divmod(values, divisor)
    match rounding:
        case "floor":
            up = np.zeros_like(rest, bool)
        case "zero":
            up = (values < 0) & (rest != 0)
        case "half_up":
            up = rest >= divisor - rest
        case "even":
            up = (rest > divisor - rest) | ((rest == divisor - rest) & (down % 2 != 0))
    rounded = down + up
    limits = np.iinfo(to)
    kept: Array = np.clip(rounded, limits.min, limits.max) if saturate else rounded
    return kept.astype(to)
