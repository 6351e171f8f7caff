"""log and log1p as arithmetic of an SW26010 core, nearly as exact as C's.

In: a value among `Sums`. Out: operations on it, those of `EXPONENT` and `MANTISSA` among them,
whose scalar code a routine writes. x = 2 ** k m with m between the roots of 1/2 and 2, and of
f = m - 1 and s = f / (2 + f) log(m) is f - (f f / 2 - s (f f / 2 + R(s s))), the form of FreeBSD's
`e_log.c`; R's coefficients interpolate it at the zeros of a Chebyshev polynomial (5e-18 relative to
log(m)). k ln 2 is added in two parts, of which k times the first one is exact. Results are within 3
units in the last place; those of zeros, negative numbers, infinities and NaN are C's.
"""

from __future__ import annotations

from math import inf, nan

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
    series, *lower = reversed([sums.constant(c) for c in SERIES])
    for coefficient in lower:
        series = sums.add("vmad", series, z, coefficient)
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
