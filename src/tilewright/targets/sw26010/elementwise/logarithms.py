"""log, log1p and pow with any exponent as arithmetic of an SW26010 core, within 3 units in the last
place; those of zeros, negative numbers, infinities and NaN are C's.

In: values among `Sums`. Out: operations on them, those of `EXPONENT` and `MANTISSA` among them,
whose scalar code a routine writes. x = 2 ** k m with m between the roots of 1/2 and 2, and of
f = m - 1 and s = f / (2 + f) log(m) is f - (f f / 2 - s (f f / 2 + R(s s))), the form of FreeBSD's
`e_log.c`; R's coefficients interpolate it at the zeros of a Chebyshev polynomial (5e-18 relative to
log(m)). k ln 2 is added in two parts, of which k times the first one is exact.

x ** y is exp(y log |x|) with the sign that belongs to it; y log |x| may be 745, so that its
logarithm takes pairs of doubles: a sum of two, the second beyond the last place of the first. With
q the quotient (m - 1) / (m + 1), log(m) is 2 q + q z (2/3 + z T(z)), z = q q, where T's
coefficients interpolate in the same way (1e-20 relative to log(m)). Products of pairs are exact by
multiply-adds.
"""

from __future__ import annotations

from math import inf, nan
from typing import TypeAlias

from tilewright.targets.sw26010.elementwise.functions import exponential_of_pair
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums

EXPONENT, MANTISSA = "exponent", "mantissa"
"""k + `SHIFT` of a positive normal number, `ROOT` and `SHIFT`; m of the number and k + `SHIFT`."""
SHIFT, ROOT = 1.5 * 2.0**52, 0.5**0.5
"""Added to k so that the bits of the sum end in it; the least m."""
SERIES = (
    0.666666666666667,
    0.39999999999899505,
    0.28571428625975487,
    0.2222221113479508,
    0.18182889125261723,
    0.15331721600556042,
    0.14616449685043406,
)
"""Coefficients of R(z) / z."""
LN_2, LN_2_REST = 0.6931471805592082, 7.371002565167799e-13
"""ln 2 in two parts, the first one of 40 bits."""
_LEAST_NORMAL, _SCALE = 2.0**-1022, 54


def logarithm(sums: Sums, x: int) -> int:
    """log(x)."""
    k, m = exponent_and_mantissa(sums, x)
    added = _where_finite(sums, x, ZERO_VALUE)
    return _of_parts(sums, k, sums.add("vsubd", m, sums.constant(1.0)), added)


def logarithm_of_one_more(sums: Sums, x: int) -> int:
    """log(1 + x) from u, the rounded 1 + x, and c, its rounding error; a zero x keeps its sign."""
    one = sums.constant(1.0)
    u = sums.add("vaddd", one, x)
    k, m = _split_normal(sums, u, SHIFT)
    larger = sums.add("vfcmplt", one, x)
    lost = sums.add("vsubd", x, sums.add("vsubd", u, one))
    lost_of_large = sums.add("vsubd", one, sums.add("vsubd", u, x))
    c = sums.add("vseleq", larger, lost, lost_of_large)
    added = _where_finite(sums, u, sums.add("vdivd", c, u))
    found = _of_parts(sums, k, sums.add("vsubd", m, one), added)
    return sums.add("vseleq", found, added, found)


def exponent_and_mantissa(sums: Sums, x: int) -> tuple[int, int]:
    """k and m of a positive number."""
    small = sums.add("vfcmplt", x, sums.constant(_LEAST_NORMAL))
    scaled = sums.add("vmuld", x, sums.constant(2.0**_SCALE))
    usual, other = sums.constant(SHIFT), sums.constant(SHIFT + _SCALE)
    normal = sums.add("vseleq", small, x, scaled)
    exponent = sums.add(EXPONENT, normal, sums.constant(ROOT), usual)
    k = sums.add("vsubd", exponent, sums.add("vseleq", small, usual, other))
    return k, sums.add(MANTISSA, normal, exponent)


def _split_normal(sums: Sums, x: int, shift: float) -> tuple[int, int]:
    exponent = sums.add(EXPONENT, x, sums.constant(ROOT), sums.constant(shift))
    k = sums.add("vsubd", exponent, sums.constant(shift))
    return k, sums.add(MANTISSA, x, exponent)


def _of_parts(sums: Sums, k: int, f: int, added: int) -> int:
    """k ln 2 + log(1 + f) + `added`, a small correction."""
    s = sums.add("vdivd", f, sums.add("vaddd", f, sums.constant(2.0)))
    z = sums.add("vmuld", s, s)
    series = sums.polynomial(z, SERIES)
    half = sums.add("vmuld", sums.add("vmuld", f, sums.constant(0.5)), f)
    rest = sums.add("vmad", k, sums.constant(LN_2_REST), added)
    rest = sums.add("vmad", s, sums.add("vmad", series, z, half), rest)
    less = sums.add("vsubd", sums.add("vsubd", half, rest), f)
    return sums.add("vmsd", k, sums.constant(LN_2), less)


def _where_finite(sums: Sums, u: int, added: int) -> int:
    """The addend of log(u): `added` if u is positive and finite, else the value that makes the sum
    C's result. The logarithm computed from the parts of u is finite for every u.
    """
    finite = sums.add("vfcmplt", u, sums.constant(inf))
    added = sums.add("vseleq", finite, u, added)
    least = sums.add("vseleq", u, sums.constant(-inf), sums.constant(nan))
    return sums.add("vselle", u, least, added)


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
    high, low = _logarithm(sums, sums.magnitude(x))
    size = sums.magnitude(x)  # once more, for the sake of registers
    finite = sums.add("vfcmplt", size, sums.constant(inf))
    high = sums.add("vseleq", finite, size, high)
    high = sums.add("vseleq", size, sums.constant(-inf), high)
    product = sums.add("vseleq", high, high, sums.add("vmuld", y, high))
    rest = sums.add("vmad", y, low, sums.add("vmsd", y, high, product))
    return product, sums.add("vseleq", high, ZERO_VALUE, rest)


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
    third = sums.add("vmuld", z, sums.polynomial(z, _SERIES))
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


def _times(sums: Sums, a: Pair, b: Pair) -> Pair:
    high = sums.add("vmuld", a[0], b[0])
    rest = sums.add("vmsd", a[0], b[0], high)
    rest = sums.add("vmad", a[0], b[1], rest)
    return high, sums.add("vmad", a[1], b[0], rest)


def _added(sums: Sums, larger: int, other: int) -> Pair:
    high = sums.add("vaddd", larger, other)
    return high, sums.add("vsubd", other, sums.add("vsubd", high, larger))


def _signed(sums: Sums, x: int) -> int:
    """A negative number if x is negative or minus zero."""
    return sums.add("vseleq", x, sums.add("vdivd", sums.constant(1.0), x), x)


def _not_whole(sums: Sums, x: int, found: int) -> int:
    """Fractional power of a negative x, given `found` = |x| ** y: NaN, or `found` for -inf."""
    inner = sums.add("vfcmplt", sums.constant(-inf), x)
    return sums.add("vseleq", inner, found, sums.constant(nan))


def _of_negative(sums: Sums, x: int, y: int, found: int) -> int:
    """Power of a negative x, or of minus zero, with any exponent y, given `found` = |x| ** y:
    negative if y is odd, NaN as in `_not_whole` if y is fractional.
    """
    size = sums.magnitude(y)
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
