"""exp, expm1, tanh, powers by quarters, sin, cos, atan, erf, roundings and remainders as arithmetic
of an SW26010 core, within 3 units in the last place; floor, ceil, round and fmod are exact.

In: a value among `Sums`. Out: operations on it, those of `POWER` among them, whose scalar code a
routine writes. Coefficients interpolate at the zeros of Chebyshev polynomials (exp: 7e-17,
trigonometry: 6e-18 relative to the results); those of erf are `ir.scalar`'s. Infinities and NaN
come out as they should.

x = 2 n ln 2 + r with |r| <= ln 2 (Cody and Waite: n times the first part of 2 ln 2 is exact), and
exp(r) - 1 is a polynomial. exp(x) is scaled by 2 ** n twice, so that results overflow and underflow
once, by rounding. An angle is n pi / 2 + r with |r| <= pi / 4 (pi / 2 in three parts, the first two
of 33 bits), and n modulo 4 says which of sin(r) and cos(r) is the result, with which sign; angles
from `LARGEST_ANGLE` on have no result (no number), since n is not exact there. atan takes
(x - 1) / (x + 1) or -1 / x where x is beyond tan(pi / 8) or tan(3 pi / 8).
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

from tilewright.ir.scalar import error_function as error
from tilewright.targets.sw26010.elementwise.sums import ZERO_VALUE, Sums

POWER = "power_of_two"
"""2 ** n in every lane of the result, of lanes n + `SHIFT`, where |n| < 1023."""
EXPONENT_BIT = 52
SHIFT = 1.5 * 2.0**EXPONENT_BIT + 1023.0
"""Added to n so that shifting the bits of the sum gives 2 ** n."""
_PER_STEP, _STEP, _STEP_REST = 0.7213475204444817, 1.3862943602725863, 8.473042731618568e-10
"""1 / (2 ln 2), and 2 ln 2 in two parts, the first one of 31 bits."""
_SERIES = (
    0.5,
    0.16666666666666666,
    0.04166666666667706,
    0.008333333333334025,
    0.0013888888886365736,
    0.00019841269839588894,
    2.4801589541267114e-05,
    2.755732071613358e-06,
    2.7556420848787645e-07,
    2.5051509818642554e-08,
    2.104273907020085e-09,
    1.6169649662588736e-10,
)
"""Coefficients of (exp(r) - 1 - r) / r ** 2."""
_LOWEST, _HIGHEST, _SATURATED = -760.0, 720.0, 40.0
"""exp is 0 below the first and infinite above the second; above the third tanh is 1, and exp - 1
counts as exp.
"""
_MOST_FACTORS = 3
_WHOLE = 2.0**52
"""Doubles from here on are whole, and adding it rounds smaller ones to whole numbers."""


def exponential(sums: Sums, x: int) -> int:
    """exp(x)."""
    power, less_one = _parts(sums, _limited(sums, x, _LOWEST, _HIGHEST))
    whole = sums.add("vaddd", sums.constant(1.0), less_one)
    return sums.add("vmuld", power, sums.add("vmuld", power, whole))


def exponential_of_pair(sums: Sums, x: int, rest: int) -> int:
    """exp(x + rest), where rest is beyond the last place of x, and nothing beyond the limits."""
    limited = _limited(sums, x, _LOWEST, _HIGHEST)
    inside = sums.add("vfcmpeq", limited, x)
    rest = sums.add("vseleq", inside, ZERO_VALUE, rest)
    power, less_one = _parts(sums, limited)
    one = sums.constant(1.0)
    less_one = sums.add("vmad", rest, sums.add("vaddd", one, less_one), less_one)
    return sums.add("vmuld", power, sums.add("vmuld", power, sums.add("vaddd", one, less_one)))


def exponential_less_one(sums: Sums, x: int) -> int:
    """exp(x) - 1; a zero x keeps its sign."""
    x = _limited(sums, x, _LOWEST, _HIGHEST)
    small = sums.add("vfcmplt", x, sums.constant(_SATURATED))
    power, less_one = _parts(sums, x)
    whole = sums.add("vmuld", power, sums.add("vaddd", sums.constant(1.0), less_one))
    near = _less_one(sums, power, less_one)
    return sums.add("vseleq", small, sums.add("vmuld", power, whole), near)


def hyperbolic_tangent(sums: Sums, x: int) -> int:
    """tanh(x) as e / (e + 2) with e = exp(2 x) - 1; a zero x keeps its sign."""
    limited = _limited(sums, x, -_SATURATED, _SATURATED)
    power, less_one = _parts(sums, sums.add("vaddd", limited, limited))
    e = _less_one(sums, power, less_one)
    return sums.add("vdivd", e, sums.add("vaddd", e, sums.constant(2.0)))


def has_power(exponent: float) -> bool:
    """True if `power` supports the exponent: a multiple of 1/4 from 1/4 to 3.75."""
    quarters = 4 * exponent
    return quarters == int(quarters) and 1 <= quarters < 4 * (_MOST_FACTORS + 1)


def power(sums: Sums, x: int, exponent: float) -> int:
    """x ** exponent as a product of x and its roots; as in C, the root of minus infinity is
    infinite and that of minus zero is zero.
    """
    factors, quarters = divmod(Fraction(exponent), 1)
    parts, quarters = [x] * int(factors), quarters * 4
    if quarters:
        lowest = sums.add("vfcmpeq", x, sums.constant(-inf))
        positive = sums.add("vseleq", lowest, x, sums.constant(inf))
        base = sums.add("vaddd", positive, ZERO_VALUE)
        root = sums.add("vsqrtd", base)
        parts = [base] * int(factors)
        parts += [root] if quarters >= 2 else []
        parts += [sums.add("vsqrtd", root)] if quarters % 2 else []
    total, *others = parts
    for other in others:
        total = sums.add("vmuld", total, other)
    return total


def whole_number(sums: Sums, x: int, *, up: bool) -> int:
    """x rounded down, or up, to a whole number; a zero result has the sign of x."""
    near = _near(sums, x)
    ordered = (near, x) if up else (x, near)
    beyond = sums.add("vfcmplt", *ordered)
    moved = sums.add("vmad" if up else "vnmad", beyond, sums.constant(0.5), near)
    return _whole(sums, x, moved)


def nearest(sums: Sums, x: int) -> int:
    """x rounded to the nearest whole number, ties to even; a zero result has the sign of x."""
    return _whole(sums, x, _near(sums, x))


def remainder(sums: Sums, x: int, y: int) -> int:
    """Exact remainder of x / y with the sign of x (C's `fmod`); NaN for quotients >= 2 ** 52."""
    size, step = sums.magnitude(x), sums.magnitude(y)
    large = sums.constant(_WHOLE)
    quotient = sums.add("vdivd", size, step)
    inside = sums.add("vfcmplt", quotient, large)
    times = sums.add("vsubd", sums.add("vaddd", quotient, large), large)
    left = sums.add("vseleq", times, size, sums.add("vnmad", times, step, size))
    left = sums.add("vsellt", left, sums.add("vaddd", left, step), left)
    signed = sums.add("vsellt", x, sums.add("vmuld", left, sums.constant(-1.0)), left)
    signed = sums.add("vseleq", left, sums.add("vmuld", x, ZERO_VALUE), signed)
    return sums.add("vseleq", inside, sums.constant(nan), signed)


def _near(sums: Sums, x: int) -> int:
    large = sums.constant(_WHOLE)
    shift = sums.add("vsellt", x, sums.constant(-_WHOLE), large)
    return sums.add("vsubd", sums.add("vaddd", x, shift), shift)


def _whole(sums: Sums, x: int, found: int) -> int:
    """The rounded value `found` of x; a zero has x's sign. x itself if it is whole or NaN."""
    signed = sums.add("vseleq", found, sums.add("vmuld", x, ZERO_VALUE), found)
    square = sums.add("vmuld", x, x)
    has_fraction = sums.add("vfcmplt", square, sums.constant(_WHOLE**2))
    return sums.add("vseleq", has_fraction, x, signed)


def _limited(sums: Sums, x: int, lowest: float, highest: float) -> int:
    """x clamped to the limits; NaN is kept."""
    low, high = sums.constant(lowest), sums.constant(highest)
    below = sums.add("vfcmplt", x, low)
    x = sums.add("vseleq", below, x, low)
    above = sums.add("vfcmplt", high, x)
    return sums.add("vseleq", above, x, high)


def _less_one(sums: Sums, power: int, less_one: int) -> int:
    """exp(x) - 1 from the parts of an x that is not large."""
    square = sums.add("vmuld", power, power)
    rest = sums.add("vsubd", sums.constant(1.0), square)
    return sums.add("vmsd", square, less_one, rest)


def _parts(sums: Sums, x: int) -> tuple[int, int]:
    """2 ** n and exp(r) - 1."""
    shift = sums.constant(SHIFT)
    shifted = sums.add("vmad", x, sums.constant(_PER_STEP), shift)
    n = sums.add("vsubd", shifted, shift)
    r = sums.add("vnmad", n, sums.constant(_STEP), x)
    r = sums.add("vnmad", n, sums.constant(_STEP_REST), r)
    scale = sums.add(POWER, shifted)
    return scale, sums.add("vmuld", r, sums.polynomial(r, (1.0, *_SERIES)))


LARGEST_ANGLE = 2.0**30
_PER_QUARTER = 0.6366197723675814
_QUARTER = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""2 / pi, and pi / 2 in parts."""
_TURNS = 1.5 * 2.0**52
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
    whole = sums.constant(_TURNS)
    n = sums.add("vsubd", sums.add("vmad", x, sums.constant(_PER_QUARTER), whole), whole)
    r = x
    for part in _QUARTER:
        r = sums.add("vnmad", n, sums.constant(part), r)
    z = sums.add("vmuld", r, r)
    sin = sums.add("vmad", sums.add("vmuld", r, z), sums.polynomial(z, _SINE), r)
    half = sums.add("vmuld", z, sums.constant(0.5))
    one = sums.constant(1.0)
    near = sums.add("vsubd", one, half)
    lost = sums.add("vsubd", sums.add("vsubd", one, near), half)
    rest = sums.add("vmad", sums.add("vmuld", z, z), sums.polynomial(z, _COSINE), lost)
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
    inside = sums.add("vfcmplt", sums.magnitude(x), sums.constant(LARGEST_ANGLE))
    return sums.add("vseleq", inside, sums.constant(nan), found)


def arc_tangent(sums: Sums, x: int) -> int:
    """atan(x); a zero x keeps its sign."""
    size, one = sums.magnitude(x), sums.constant(1.0)
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
    rest = sums.add("vmad", sums.add("vmuld", r, z), sums.polynomial(z, _ARC), rest)
    found = sums.add("vaddd", start, sums.add("vaddd", r, rest))
    minus = sums.add("vmuld", found, sums.constant(-1.0))
    return sums.add("vseleq", x, x, sums.add("vsellt", x, minus, found))


def error_function(sums: Sums, x: int) -> int:
    """erf(x)."""
    last, centre = sums.constant(error.LAST), sums.constant(error.CENTRE)
    size = sums.magnitude(x)
    size = sums.add("vseleq", sums.add("vfcmplt", last, size), size, last)
    square = sums.add("vmuld", size, size)
    near = sums.add("vmad", x, sums.polynomial(square, error.NEAR), x)
    quotient = sums.add("vdivd", sums.add("vsubd", size, centre), sums.add("vaddd", size, centre))
    left = exponential(sums, sums.add("vsubd", ZERO_VALUE, square))
    one = sums.constant(1.0)
    far = sums.add("vnmad", left, sums.polynomial(quotient, error.FAR), one)
    signed = sums.add("vsellt", x, sums.add("vmuld", far, sums.constant(-1.0)), far)
    small = sums.add("vfcmplt", size, sums.constant(error.SPLIT))
    return sums.add("vseleq", x, x, sums.add("vseleq", small, signed, near))
