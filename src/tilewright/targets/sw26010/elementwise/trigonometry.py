"""sin, cos, atan and erf as arithmetic of an SW26010 core, within 3 units in the last place.

In: a value among `Sums`. Out: operations on it. The angle is n pi / 2 + r with |r| <= pi / 4 (Cody
and Waite: pi / 2 in three parts, the first two of 33 bits), and n modulo 4 says which of sin(r) and
cos(r) is the result, with which sign; angles from `LARGEST_ANGLE` on have no result (no number),
since n is not exact there. atan takes (x - 1) / (x + 1) or -1 / x where x is beyond tan(pi / 8) or
tan(3 pi / 8). Coefficients interpolate at the zeros of Chebyshev polynomials (6e-18 relative to the
results); those of erf are `ir.scalar`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from tilewright.ir.scalar import error_function as error
from tilewright.targets.sw26010.elementwise.functions import exponential
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums

LARGEST_ANGLE = 2.0**30
_PER_QUARTER = 0.6366197723675814
_QUARTER = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""2 / pi, and pi / 2 in parts."""
_WHOLE = 1.5 * 2.0**52
"""Adding it rounds to whole numbers."""
_SINE = (
    -0.16666666666666666,
    0.008333333333330946,
    -0.0001984126983675497,
    2.755731610068303e-06,
    -2.5051131455427946e-08,
    1.591810123027412e-10,
)
_COSINE = (
    0.041666666666666664,
    -0.0013888888888887395,
    2.4801587298763433e-05,
    -2.7557317270560326e-07,
    2.0876146024689747e-09,
    -1.1382614868556325e-11,
)
_ARC = (
    -0.3333333333333333,
    0.1999999999999552,
    -0.14285714284666542,
    0.11111111015256361,
    -0.09090904578123903,
    0.07692183190826087,
    -0.06664511447381948,
    0.0585814891280221,
    -0.0508544973794026,
    0.03923165829558719,
    -0.019176887119062257,
)
_TAN_1, _TAN_3 = 0.41421356237309503, 2.414213562373095
_HALF, _HALF_REST = 1.5707963267948966, 6.123233995736766e-17
"""tan(pi / 8) and tan(3 pi / 8); pi / 2 in two parts, the second beyond the last place of the
first.
"""


def sine(sums: Sums, x: int) -> int:
    """sin(x); a zero x keeps its sign."""
    return sums.add("vseleq", x, x, _turned(sums, x, quarters=0))


def cosine(sums: Sums, x: int) -> int:
    """cos(x)."""
    return _turned(sums, x, quarters=1)


def _turned(sums: Sums, x: int, quarters: int) -> int:
    """sin(x + quarters pi / 2)."""
    whole = sums.constant(_WHOLE)
    n = sums.add("vsubd", sums.add("vmad", x, sums.constant(_PER_QUARTER), whole), whole)
    r = x
    for part in _QUARTER:
        r = sums.add("vnmad", n, sums.constant(part), r)
    z = sums.add("vmuld", r, r)
    sin = sums.add("vmad", sums.add("vmuld", r, z), _polynomial(sums, z, _SINE), r)
    half = sums.add("vmuld", z, sums.constant(0.5))
    one = sums.constant(1.0)
    near = sums.add("vsubd", one, half)
    lost = sums.add("vsubd", sums.add("vsubd", one, near), half)
    rest = sums.add("vmad", sums.add("vmuld", z, z), _polynomial(sums, z, _COSINE), lost)
    cos = sums.add("vaddd", near, rest)
    if quarters:
        n = sums.add("vaddd", n, sums.constant(float(quarters)))
    fours = sums.add("vsubd", sums.add("vmad", n, sums.constant(0.25), whole), whole)
    turn = sums.add("vnmad", fours, sums.constant(4.0), n)  # from -2 to 2
    square = sums.add("vmuld", turn, turn)
    odd = sums.add("vfcmpeq", square, one)
    even_sign = sums.add("vnmad", square, sums.constant(0.5), one)
    sign = sums.add("vseleq", odd, even_sign, turn)
    found = sums.add("vmuld", sums.add("vseleq", odd, sin, cos), sign)
    inside = sums.add("vfcmplt", _size(sums, x), sums.constant(LARGEST_ANGLE))
    return sums.add("vseleq", inside, sums.constant(nan), found)


def arc_tangent(sums: Sums, x: int) -> int:
    """atan(x); a zero x keeps its sign."""
    size, one = _size(sums, x), sums.constant(1.0)
    beyond = sums.add("vfcmplt", sums.constant(_TAN_1), size)
    far = sums.add("vfcmplt", sums.constant(_TAN_3), size)

    def chosen(near: int, between: int, last: int) -> int:
        return sums.add("vseleq", far, sums.add("vseleq", beyond, near, between), last)

    above = chosen(size, sums.add("vsubd", size, one), sums.constant(-1.0))
    below = chosen(one, sums.add("vaddd", size, one), size)
    r = sums.add("vdivd", above, below)
    z = sums.add("vmuld", r, r)
    start = chosen(ZERO_VALUE, sums.constant(_HALF / 2), sums.constant(_HALF))
    rest = chosen(ZERO_VALUE, sums.constant(_HALF_REST / 2), sums.constant(_HALF_REST))
    rest = sums.add("vmad", sums.add("vmuld", r, z), _polynomial(sums, z, _ARC), rest)
    found = sums.add("vaddd", start, sums.add("vaddd", r, rest))
    minus = sums.add("vmuld", found, sums.constant(-1.0))
    return sums.add("vseleq", x, x, sums.add("vsellt", x, minus, found))


def error_function(sums: Sums, x: int) -> int:
    """erf(x)."""
    last, centre = sums.constant(error.LAST), sums.constant(error.CENTRE)
    size = _size(sums, x)
    size = sums.add("vseleq", sums.add("vfcmplt", last, size), size, last)
    square = sums.add("vmuld", size, size)
    near = sums.add("vmad", x, _polynomial(sums, square, error.NEAR), x)
    quotient = sums.add("vdivd", sums.add("vsubd", size, centre), sums.add("vaddd", size, centre))
    left = exponential(sums, sums.add("vsubd", ZERO_VALUE, square))
    one = sums.constant(1.0)
    far = sums.add("vnmad", left, _polynomial(sums, quotient, error.FAR), one)
    signed = sums.add("vsellt", x, sums.add("vmuld", far, sums.constant(-1.0)), far)
    small = sums.add("vfcmplt", size, sums.constant(error.SPLIT))
    return sums.add("vseleq", x, x, sums.add("vseleq", small, signed, near))


def _size(sums: Sums, x: int) -> int:
    return sums.add("vselle", x, sums.add("vsubd", ZERO_VALUE, x), x)


def _polynomial(sums: Sums, z: int, coefficients: Sequence[float]) -> int:
    series, *lower = reversed([sums.constant(c) for c in coefficients])
    for coefficient in lower:
        series = sums.add("vmad", series, z, coefficient)
    return series
