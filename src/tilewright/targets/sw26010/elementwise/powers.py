"""pow with any exponent as arithmetic of an SW26010 core, within 3 units in the last place.

In: two values among `Sums`. Out: operations on them. x ** y is exp(y log |x|) with the sign that
belongs to it; y log |x| may be 745, so that its logarithm takes pairs of doubles: a sum of two, the
second beyond the last place of the first. With q the quotient (m - 1) / (m + 1) of `m` as in
`logarithms`, log(m) is 2 q + q z (2/3 + z T(z)), z = q q, where T's coefficients interpolate
it at the zeros of a Chebyshev polynomial (1e-20 relative to log(m)). Products of pairs are exact by
multiply-adds. Zeros, infinities and NaN come out as in C.
"""

from __future__ import annotations

from math import inf, nan
from typing import TypeAlias

from tilewright.targets.sw26010.elementwise.functions import exponential_of_pair
from tilewright.targets.sw26010.elementwise.logarithms import LN_2, LN_2_REST, exponent_and_mantissa
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums

Pair: TypeAlias = tuple[int, int]
"""A double-double: the high value, and the low one beyond its last place."""
_SERIES = (
    0.4,
    0.28571428571429364,
    0.22222222221656232,
    0.18181818335314404,
    0.15384594970895457,
    0.13334804238225345,
    0.11706248540922386,
    0.11723051028097754,
)
"""Coefficients of T(z)."""
_TWO_THIRDS = 0.6666666666666666, 3.700743415417188e-17
_WHOLE = 2.0**52
"""Adding it to smaller numbers rounds them to whole ones; whole numbers from twice this on are
even.
"""


def general_power(sums: Sums, x: int, y: int, exponent: float | None = None) -> int:
    """x ** y; `exponent` is the value of y if it is known."""
    found = exponential_of_pair(sums, *_exponent(sums, x, y))
    if exponent is None:
        found = sums.add("vsellt", _signed(sums, x), _of_negative(sums, x, y, found), found)
        return sums.add("vseleq", y, sums.constant(1.0), found)
    match exponent % 2:
        case 0:
            return found
        case 1:
            minus = sums.add("vmuld", found, sums.constant(-1.0))
            return sums.add("vsellt", _signed(sums, x), minus, found)
        case _:
            return sums.add("vsellt", x, _not_whole(sums, x, found), found)


def _exponent(sums: Sums, x: int, y: int) -> Pair:
    """y log |x|: infinite where the logarithm is, and 0 where |x| is 1, for any y."""
    high, low = _logarithm(sums, _size(sums, x))
    size = _size(sums, x)  # once more, for the sake of registers
    finite = sums.add("vfcmplt", size, sums.constant(inf))
    high = sums.add("vseleq", finite, size, high)
    high = sums.add("vseleq", size, sums.constant(-inf), high)
    product = sums.add("vseleq", high, high, sums.add("vmuld", y, high))
    rest = sums.add("vmad", y, low, sums.add("vmsd", y, high, product))
    return product, sums.add("vseleq", high, ZERO_VALUE, rest)


def _size(sums: Sums, x: int) -> int:
    return sums.add("vselle", x, sums.add("vsubd", ZERO_VALUE, x), x)


def _logarithm(sums: Sums, x: int) -> Pair:
    """log(x) of a positive finite number."""
    k, m = exponent_and_mantissa(sums, x)
    q, q_rest = _quotient(sums, m)
    z, z_rest = _times(sums, (q, q_rest), (q, q_rest))
    cube = _times(sums, (q, q_rest), (z, z_rest))
    rest = sums.add("vmad", k, sums.constant(LN_2_REST), sums.add("vaddd", q_rest, q_rest))
    whole = sums.add("vmuld", k, sums.constant(LN_2))
    total, lost = _added(sums, whole, sums.add("vaddd", q, q))
    rest = sums.add("vaddd", rest, lost)
    third = sums.add("vmuld", z, _polynomial(sums, z))
    factor, lost = _added(sums, sums.constant(_TWO_THIRDS[0]), third)
    factor_rest = sums.add("vaddd", lost, sums.constant(_TWO_THIRDS[1]))
    high, low = _times(sums, cube, (factor, factor_rest))
    total, lost = _added(sums, total, high)
    rest = sums.add("vaddd", rest, low)
    return _added(sums, total, sums.add("vaddd", rest, lost))


def _quotient(sums: Sums, m: int) -> Pair:
    """(m - 1) / (m + 1)."""
    one = sums.constant(1.0)
    f, above = sums.add("vsubd", m, one), sums.add("vaddd", m, one)
    lost = sums.add("vsubd", m, sums.add("vsubd", above, one))
    part = sums.add("vdivd", one, above)
    q = sums.add("vmuld", f, part)
    left = sums.add("vnmad", q, lost, sums.add("vnmad", q, above, f))
    return q, sums.add("vmuld", left, part)


def _polynomial(sums: Sums, z: int) -> int:
    series, *lower = reversed([sums.constant(c) for c in _SERIES])
    for coefficient in lower:
        series = sums.add("vmad", series, z, coefficient)
    return series


def _times(sums: Sums, a: Pair, b: Pair) -> Pair:
    high = sums.add("vmuld", a[0], b[0])
    rest = sums.add("vmsd", a[0], b[0], high)
    rest = sums.add("vmad", a[0], b[1], rest)
    return high, sums.add("vmad", a[1], b[0], rest)


def _added(sums: Sums, larger: int, other: int) -> Pair:
    high = sums.add("vaddd", larger, other)
    return high, sums.add("vsubd", other, sums.add("vsubd", high, larger))


def _signed(sums: Sums, x: int) -> int:
    """A number below zero where x is one, or minus zero."""
    return sums.add("vseleq", x, sums.add("vdivd", sums.constant(1.0), x), x)


def _not_whole(sums: Sums, x: int, found: int) -> int:
    """Power of a negative x with a fractional exponent, given `found` = |x| ** y: NaN, or `found`
    for -inf.
    """
    inner = sums.add("vfcmplt", sums.constant(-inf), x)
    return sums.add("vseleq", inner, found, sums.constant(nan))


def _of_negative(sums: Sums, x: int, y: int, found: int) -> int:
    """Power of a negative x, or of minus zero, with any exponent y, given `found` = |x| ** y:
    negative if y is odd, NaN as in `_not_whole` if y is fractional.
    """
    size = _size(sums, y)
    most, whole = sums.constant(2 * _WHOLE), sums.constant(_WHOLE)
    large = sums.add("vfcmplt", most, size)
    size = sums.add("vseleq", large, size, most)
    half = sums.add("vmuld", size, sums.constant(0.5))
    nearest = sums.add("vsubd", sums.add("vaddd", half, whole), whole)
    apart = sums.add("vsubd", size, sums.add("vaddd", nearest, nearest))
    is_odd = sums.add("vfcmpeq", sums.add("vmuld", apart, apart), sums.constant(1.0))
    neither = sums.add("vseleq", x, found, _not_whole(sums, x, found))
    of_whole = sums.add("vseleq", apart, found, neither)
    minus = sums.add("vmuld", found, sums.constant(-1.0))
    return sums.add("vseleq", is_odd, of_whole, minus)
