"""Functions of single precision as C that compilers turn into vectors: no branch, no table.

In: names of elementary functions of `ir.scalar`. Out: C text. Results are within 1.5 units in the
last place on every fourth bit pattern, subnormal, infinite and no numbers included (`make
host-functions`). Products are added by fused instructions, without these in double precision, where
the sum of an exact product rounds twice: that no result differs is seen by trying arguments, all of
them for exp, expm1 and log. Where single precision does not suffice, terms are of double precision.
Its products and sums, and others, round apart (`SEPARATE`), so that every instruction set gives the
same bits. The polynomials are fits of our own, of the least relative error; reductions are Cody and
Waite's, "Software Manual for the Elementary Functions" (1980), and of angles Payne and Hanek's,
"Radian Reduction for Trigonometric Functions" (1983).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.ir.scalar import operations, parse_scalar

SEPARATE = "-ffp-contract=off"
"""The compiler flag of files that call these functions."""


def own_flags(text: str) -> tuple[str, ...]:
    """The compiler flags of a file of C, beyond those of all generated code."""
    return (SEPARATE,) if "tw_power_of_2" in text else ()


@dataclass(frozen=True)
class _Vectorised:
    """C of one function, and the functions that it calls. `small`, where it is apart, is that for
    sizes below `SMALL`, with the same results.
    """

    text: str
    calls: tuple[str, ...] = ()
    small: str = ""


SMALL = "0x1p17f"
"""Sizes of arguments below which those of a circle are reduced in single precision."""


def vector_names(*, vectors: bool = False) -> dict[str, str]:
    """The C names of the functions that have such a text, for elements or for whole vectors.

    >>> vector_names()["exp"], vector_names(vectors=True)["exp"]
    ('tw_expf', 'tw_exp_vector')
    """
    suffix = "_vector" if vectors else "f"
    return {name: f"tw_{name}{suffix}" for name in _FUNCTIONS}


def small_names() -> dict[str, str]:
    """The C names of those functions that have a text of their own for small arguments.

    >>> small_names()
    {'cos': 'tw_cos_smallf', 'sin': 'tw_sin_smallf'}
    """
    return {name: f"tw_{name}_smallf" for name, own in _FUNCTIONS.items() if own.small}


def functions_text(names: Iterable[str], *, vectors: bool = False) -> str:
    """C of these functions and of what they call; empty for none. Those of `vectors` take and give
    the `tw_vector_f32` of an instruction set.

    >>> functions_text([])
    ''
    """
    found: dict[str, str] = {}

    def add(name: str) -> None:
        own = _FUNCTIONS[name]
        for called in own.calls:
            add(called)
        found.setdefault(name, own.small + own.text)

    for name in sorted(names):
        add(name)
    if not found:
        return ""
    own = "\n".join(found.values())
    if not vectors:  # where a loop calls one, and many do, it would not become vectors
        own = own.replace("static inline", "static inline __attribute__((always_inline))")
    text = "\n".join([_VECTOR if vectors else _SCALAR, _HELPERS, own])
    words = ("float", "int", "double", "f")
    if vectors:
        words = ("tw_vector_f32", "tw_truth_f32", "tw_doubles", "_vector")
    for word, value in zip(("FLOAT", "INT", "DOUBLE", "@"), words, strict=True):
        text = text.replace(word, value)
    return text


def function_operations(name: str) -> int:
    """Vector operations of a function and of those that it calls, as their texts have them, for
    small arguments where these are apart; a quotient takes the time of several.

    >>> function_operations("exp"), function_operations("tanh") > function_operations("exp")
    (19, True)
    """
    own = _FUNCTIONS[name]
    return _operations(own.small or own.text) + sum(map(function_operations, own.calls))


_OPERATION = re.compile(r" (?:[-+*/&|<>]|<<|>>|[<>=!]=) |tw_(\w+)@\(")


def _operations(text: str) -> int:
    """Operations of one function of C, helpers by those inside them, doubles by two vectors."""
    found = 0
    for line in text.partition("{")[2].splitlines():
        vectors = 2 if " DOUBLE " in line else 1
        for match in _OPERATION.finditer(line):
            one = match[0].strip() == "/"
            cost = _QUOTIENT if one else _HELPER_OPERATIONS.get(match[1], 0) if match[1] else 1
            found += vectors * cost
    return found


_QUOTIENT = operations(parse_scalar("x0 / x1"))
_HELPER_OPERATIONS = {
    "absolute": 1, "choose": 1, "converted": 1, "first": 1, "fused": 1, "larger": 1, "less": 1,
    "narrow": 2, "near": 1, "pick": 1, "power_of_2": 1, "signed": 3, "smaller": 1, "whole": 1,
    "wide": 1,
}  # fmt: skip


def _polynomial(into: str, of: str, *coefficients: float) -> str:
    """Lines of Horner's rule, from the highest power down. A long one is two, of the even powers
    and of the odd ones: half the steps wait for each other.
    """
    if len(coefficients) < _LONG:
        return _horner(into, of, coefficients)
    last, other = coefficients[::-2][::-1], coefficients[-2::-2][::-1]
    lines = [f"    const FLOAT {into}2 = {of} * {of};"]
    lines += [_horner(into, f"{into}2", last), _horner(f"{into}1", f"{into}2", other)]
    return "\n".join([*lines, f"    {into} = tw_fused@({into}1, {of}, {into});"])


_LONG = 4
"""Coefficients from which on a polynomial is written as two."""


def _horner(into: str, of: str, coefficients: Sequence[float]) -> str:
    first, *others = coefficients
    lines = [f"    FLOAT {into} = tw_fill@({first}f);"]
    lines += [f"    {into} = tw_fused@({into}, {of}, tw_fill@({float(c)}f));" for c in others]
    return "\n".join(lines)


def _doubles(of: str, coefficients: Sequence[float]) -> str:
    """Horner's rule in double precision, products and sums rounded apart."""
    first, *others = coefficients
    text = f"{first!r}"
    for c in others:
        text = f"({text} * {of} + {c!r})"
    return text


_HELPERS = """\
static inline FLOAT tw_absolute@(FLOAT x) { return tw_from_bits@(tw_bits@(x) & 0x7fffffff); }
static inline FLOAT tw_signed@(FLOAT size, FLOAT x)
{
    return tw_from_bits@((tw_bits@(size) & 0x7fffffff) | (tw_bits@(x) & ~0x7fffffff));
}
"""

# Of arguments without a result, integers wrap around like those of vectors. The smaller of numbers
# with a positive limit is that of integers, for which compilers have an instruction.
_SCALAR = """\
static inline float tw_from_bitsf(int i) { float x; memcpy(&x, &i, sizeof x); return x; }
static inline int tw_bitsf(float x) { int i; memcpy(&i, &x, sizeof i); return i; }
static inline float tw_choosef(int c, float a, float b) { return c ? a : b; }
static inline float tw_largerf(float low, float x) { return low > x ? low : x; }
static inline float tw_smallerf(float high, float x)
{
    const int a = tw_bitsf(high), b = tw_bitsf(x);
    return tw_from_bitsf(a < b ? a : b);
}
static inline int tw_firstf(int i) { return (int)((unsigned)i << 31); }
static inline float tw_convertedf(int i) { return (float)i; }
static inline float tw_fillf(float x) { return x; }
static inline double tw_widef(float x) { return x; }
static inline float tw_narrowf(double x) { return (float)x; }
static inline double tw_pickf(int c, double a, double b) { return c ? a : b; }
static inline double tw_spreadf(double x) { return x; }
#ifdef __SSE4_1__
static inline double tw_nearf(double x) { return __builtin_rint(x); }
static inline double tw_wholef(double x) { return __builtin_rint(x); }
#else
static inline double tw_nearf(double x) { return x + 0x1.8p52 - 0x1.8p52; }
static inline double tw_wholef(double x)
{
    const double near = tw_nearf(x);
    return near + tw_nearf(x - near);
}
#endif
static inline float tw_power_of_2f(int n) { return tw_from_bitsf((int)((unsigned)n << 23)); }
#ifdef __FP_FAST_FMAF
static inline float tw_fusedf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
static inline float tw_fusedf(float a, float b, float c) { return (float)((double)a * b + c); }
#endif
static inline int tw_lessf(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
"""

_VECTOR = """\
typedef double tw_doubles __attribute__((vector_size(2 * sizeof(FLOAT))));
typedef long long tw_longs __attribute__((vector_size(2 * sizeof(FLOAT))));
static inline DOUBLE tw_wide@(FLOAT x) { return __builtin_convertvector(x, DOUBLE); }
static inline FLOAT tw_narrow@(DOUBLE x) { return __builtin_convertvector(x, FLOAT); }
static inline DOUBLE tw_pick@(tw_longs c, DOUBLE a, DOUBLE b)
{
    return (DOUBLE)((c & (tw_longs)a) | (~c & (tw_longs)b));
}
static inline DOUBLE tw_spread@(double x) { return (DOUBLE){0} + x; }
static inline DOUBLE tw_near@(DOUBLE x) { return x + 0x1.8p52 - 0x1.8p52; }
static inline DOUBLE tw_whole@(DOUBLE x)
{
    const DOUBLE near = tw_near@(x);
    return near + tw_near@(x - near);
}
static inline FLOAT tw_from_bits@(INT i) { return (FLOAT)i; }
static inline INT tw_bits@(FLOAT x) { return (INT)x; }
static inline FLOAT tw_choose@(INT c, FLOAT a, FLOAT b) { return tw_select_f32(c, a, b); }
static inline FLOAT tw_larger@(FLOAT low, FLOAT x) { return tw_maximum_f32(low, x); }
static inline FLOAT tw_smaller@(FLOAT high, FLOAT x) { return tw_minimum_f32(high, x); }
static inline INT tw_first@(INT i) { return i << 31; }
static inline FLOAT tw_converted@(INT i) { return __builtin_convertvector(i, FLOAT); }
static inline FLOAT tw_fill@(float x) { return tw_broadcast_f32(x); }
static inline FLOAT tw_power_of_2@(INT n) { return tw_from_bits@(n << 23); }
#ifdef tw_fused_f32
#define tw_fused@ tw_multiply_add_f32
#else
static inline FLOAT tw_fused@(FLOAT a, FLOAT b, FLOAT c)
{
    return tw_narrow@(tw_wide@(a) * tw_wide@(b) + tw_wide@(c));
}
#endif
#define tw_less@(a, b) ((a) - (b))
"""


def _split(bias: int, most: int) -> str:
    """Lines that make `a` of `whole` times ln 2 and what is left, `r`. Adding 1.5 * 2 ** 23 rounds
    to an integer, which then stands in the lowest bits of `n`; with the bias of an exponent it is a
    power of 2 when it is shifted, up to `most`, from which on results are infinite. ln 2 is its
    nearest number, and what that lacks.
    """
    return f"""\
    const FLOAT up = tw_fill@({12582912 + bias}.0f);
    const FLOAT shifted = tw_fused@(a, tw_fill@(1.44269504f), up);
    const FLOAT limited = tw_smaller@(up + {most}.0f, shifted), whole = limited - up;
    const INT n = tw_bits@(limited);
    const FLOAT high = tw_fused@(whole, tw_fill@(-0.693147182f), a);
    const FLOAT r = tw_fused@(whole, tw_fill@(1.90465421e-9f), high);
"""


_EXP_FIT = (
    0.00138131448, 0.00836941879, 0.041668456, 0.166665152, 0.49999994, 1, 1,
)  # fmt: skip
# Two powers of 2, each with half of the bias: one of them would not reach subnormal results.
_EXP = f"""\
static inline FLOAT tw_exp@(FLOAT x)
{{
    const FLOAT a = tw_larger@(tw_fill@(-104.0f), x);
{_split(2 * 127, 129)}\
{_horner("p", "r", _EXP_FIT)}
    const INT half = n >> 1;
    return p * tw_power_of_2@(half) * tw_power_of_2@(n - half);
}}
"""

_EXPM1_FIT = (
    0.000198459587, 0.00139416521, 0.00833339151, 0.0416663475, 0.166666657, 0.5,
)  # fmt: skip
# Half of the power of 2, since the largest one is infinite.
_EXPM1 = f"""\
static inline FLOAT tw_expm1@(FLOAT x)
{{
    const FLOAT a = tw_larger@(tw_fill@(-17.5f), x);
{_split(126, 128)}\
    const FLOAT lost = tw_fused@(whole, tw_fill@(1.90465421e-9f), high - r);
{_polynomial("p", "r", *_EXPM1_FIT)}
    const FLOAT s = tw_power_of_2@(n), rest = tw_fused@(r * r, p, lost);
    const FLOAT y = tw_fused@(rest, s, tw_fused@(r, s, s - 0.5f)) * 2.0f;
    const INT itself = (tw_absolute@(x) < 1e-9f) | (x == INFINITY);
    return tw_choose@(itself, x, tw_choose@(whole == 0.0f, r + rest, y));
}}
"""

_LOG_FIT = (
    -0.0763643906, 0.127622172, -0.131596103, 0.1420158, -0.166234091, 0.200012416, -0.250008196,
    0.333333313,
)  # fmt: skip
# x = 2 ** e (1 + f), where 1 + f is from the root of 1/2 on, which has the bits 0x3f3504f3. A
# subnormal x has the bits of 2 ** 25 times as much, with an exponent of 25 less, below 0.
_LOG = f"""\
static inline FLOAT tw_log@(FLOAT x)
{{
    const FLOAT more = tw_from_bits@(tw_less@(tw_bits@(x * 0x1p25f), 25 << 23));
    const INT i = tw_bits@(tw_choose@(x < 0x1p-126f, more, x));
    const INT above = tw_less@(i, 0x3f3504f3);
    const FLOAT f = tw_from_bits@(tw_less@(i, above & ~0x7fffff)) - 1.0f, square = f * f;
{_polynomial("p", "f", *_LOG_FIT)}
    const FLOAT near = tw_fused@(tw_fused@(p, f, tw_fill@(-0.5f)), square, f);
    const FLOAT y = tw_fused@(tw_converted@(above >> 23), tw_fill@(0.693147182f), near);
    const FLOAT z = tw_choose@(x < INFINITY, y, x);
    const FLOAT none = tw_choose@(x == 0.0f, tw_fill@(-INFINITY), tw_fill@(NAN));
    return tw_choose@(x > 0.0f, z, none);
}}
"""

_LOG1P = """\
static inline FLOAT tw_log1p@(FLOAT x)
{
    const FLOAT u = 1.0f + x, v = tw_log@(u);
    const FLOAT lost = tw_choose@(u >= 2.0f, 1.0f - (u - x), x - (u - 1.0f));
    const FLOAT y = tw_choose@((u > 0.0f) & (u < INFINITY), v + lost / u, v);
    return tw_choose@(tw_absolute@(x) < 1e-9f, x, y);
}
"""

_TANH_FIT = (
    0.00214753975, -0.00818267744, 0.0217029694, -0.0539472029, 0.133332103, -0.333333313,
)  # fmt: skip
_TANH = f"""\
static inline FLOAT tw_tanh@(FLOAT x)
{{
    const FLOAT a = tw_absolute@(x), z = x * x;
{_polynomial("p", "z", *_TANH_FIT)}
    const FLOAT near = tw_fused@(a * z, p, a), far = 1.0f - 2.0f / (tw_exp@(2.0f * a) + 1.0f);
    return tw_signed@(tw_choose@(a < 0.625f, near, far), x);
}}
"""

_ERF_NEAR_FIT = (
    7.88912294e-05, -0.000802084222, 0.00518953567, -0.0268544443, 0.112836003, -0.37612626,
    0.128379166,
)  # fmt: skip
_ERF_FAR_FIT = (
    2.16867666e-05, -0.000441335345, 0.00420455635, -0.0252082404, 0.108418554, 0.633219898,
    1.12957835, -0.000188037127,
)  # fmt: skip
# Beyond 1 it is 1 - exp(-g), beyond 4 it rounds to 1.
_ERF = f"""\
static inline FLOAT tw_erf@(FLOAT x)
{{
    const FLOAT a = tw_absolute@(x), z = x * x, b = tw_choose@(a < 4.0f, a, tw_fill@(4.0f));
{_polynomial("p", "z", *_ERF_NEAR_FIT)}
{_polynomial("g", "b", *_ERF_FAR_FIT)}
    const FLOAT far = tw_signed@(1.0f - tw_exp@(-g), x);
    return tw_choose@(x != x, x, tw_choose@(a < 1.0f, tw_fused@(x, p, x), far));
}}
"""

_ATAN_FIT = (
    -0.00182247034, 0.0110446122, -0.0314213932, 0.0582028069, -0.0841776654, 0.10957054,
    -0.142651573, 0.199986309, -0.333333015,
)  # fmt: skip
_ATAN = f"""\
static inline FLOAT tw_atan@(FLOAT x)
{{
    const FLOAT a = tw_absolute@(x), t = tw_choose@(a > 1.0f, 1.0f / a, a), z = t * t;
{_horner("p", "z", _ATAN_FIT)}
    const FLOAT s = tw_fused@(t * z, p, t);
    return tw_signed@(tw_choose@(a > 1.0f, 1.57079637f - (s + 4.37113883e-8f), s), x);
}}
"""

_TURN = (
    ("0x1.45f3068p-3", "0x1.7272208p-29", "0x1.4a7f09p-56", "0x1.abe8fa9a6ee06p-81"),
    ("0x1.836e4ep-18", "0x1.1054a78p-44", "0x1.c2757dp-70", "0x1.f534ddc0db628p-98"),
    ("0x1.3f84eap-63", "0x1.f47d4dp-88", "0x1.bb81b6p-115", "0x1.8a5664f10e41p-140"),
)
"""1 / (2 pi) in parts of 26 bits, which a number times is exact in double precision, and one of 53:
for sizes below 2 ** 40, below 2 ** 84, and others, without the bits that make whole turns alone.
"""
_SIN_FIT = (-0.000195171378, 0.00833217707, -0.166666552)
_COS_FIT = (2.44329694e-05, -0.00138873141, 0.0416666456, -0.5)


def _turned(part: int) -> str:
    near, far, farther = (f"tw_spread@({row[part]})" for row in _TURN)
    beyond = f"tw_pick@(square < 0x1p168, {far}, {farther})"
    return f"wide * tw_pick@(square < 0x1p80, {near}, {beyond})"


# The sine of `n` quarters and `r`, which lacks `lost`.
_CIRCLE = f"""\
    const FLOAT z = r * r;
{_horner("p", "z", _SIN_FIT)}
{_horner("q", "z", _COS_FIT)}
    const FLOAT sine = r + tw_fused@(r * z, p, lost);
    const FLOAT cosine = tw_fused@(q, z, tw_fill@(1.0f));
    const FLOAT y = tw_choose@((n & 1) == 0, sine, cosine);
    const FLOAT turned = tw_from_bits@(tw_bits@(y) ^ tw_first@(n >> 1));
"""


def _circular(name: str, ahead: int) -> _Vectorised:
    """The sine of an angle so many quarters ahead. A small one loses its quarters in three parts,
    of which the first leaves an exact rest. Of the part of a turn that another is, what makes whole
    ones is taken away after each product, so that sums stay exact until they are as small as any
    argument leaves. Then comes the nearest quarter. Squares are compared since compilers compare
    numbers in single precision and widen the truths for each choice. The sine of a zero has its
    sign.
    """
    result = "turned" if ahead else "tw_choose@(x == 0.0f, x, turned)"
    small = f"""\
static inline FLOAT tw_{name}_small@(FLOAT x)
{{
    const FLOAT up = tw_fill@({12582912 + ahead}.0f);
    const FLOAT shifted = tw_fused@(x, tw_fill@(0.636619772f), up), whole = shifted - up;
    const INT n = tw_bits@(shifted);
    const FLOAT most = tw_fused@(whole, tw_fill@(-1.57079637f), x);
    const FLOAT more = whole * 4.37113883e-8f, r = most + more;
    const FLOAT least = tw_fused@(whole, tw_fill@(4.37113883e-8f), -more);
    const FLOAT rest = tw_fused@(whole, tw_fill@(1.71512451e-15f), least);
    const FLOAT lost = more - (r - most) + rest;
{_CIRCLE}\
    return {result};
}}
"""
    text = f"""\
static inline FLOAT tw_{name}@(FLOAT x)
{{
    const DOUBLE wide = tw_wide@(x), square = wide * wide;
    const DOUBLE first = {_turned(0)};
    const DOUBLE high = first - tw_whole@(first);
    const DOUBLE more = high - tw_near@(high) + {_turned(1)};
    const DOUBLE most = more - tw_near@(more) + {_turned(2)};
    const DOUBLE part = most - tw_near@(most) + {_turned(3)};
    const DOUBLE nearest = part + 0x1.8p50 - 0x1.8p50;
    const DOUBLE angle = (part - nearest) * 0x1.921fb54442d18p2;
    const FLOAT quarters = tw_narrow@(nearest) * 4.0f + {12582912 + ahead}.0f;
    const INT n = tw_bits@(quarters);
    const FLOAT r = tw_narrow@(angle), lost = tw_narrow@(angle - tw_wide@(r));
{_CIRCLE}\
    return tw_choose@(tw_absolute@(x) < {SMALL}, tw_{name}_small@(x), turned);
}}
"""
    return _Vectorised(text, (), small)


_LOG2_FIT = (
    0.3407301086687153, 0.4116727180317792, 0.5770835849941093, 0.9617966733415659,
    2.88539008179009,
)  # fmt: skip
_EXP2_FIT = (
    0.0001535336062090902, 0.00133988748663455, 0.009618437366442738, 0.05550332469694381,
    0.24022647913498832, 0.6931472028559703, 1,
)  # fmt: skip
# In double precision log2 of the size as that of log, of 1 + f by s = f / (2 + f), then 2 to the
# power: powers that are numbers of single precision are those. An end is what powers of 0 and of
# infinity are, or infinite powers.
_POW = f"""\
static inline FLOAT tw_pow@(FLOAT x, FLOAT y)
{{
    const FLOAT a = tw_absolute@(x), b = tw_absolute@(y);
    const FLOAT more = tw_from_bits@(tw_less@(tw_bits@(a * 0x1p25f), 25 << 23));
    const INT i = tw_bits@(tw_choose@(a < 0x1p-126f, more, a));
    const INT above = tw_less@(i, 0x3f3504f3);
    const DOUBLE f = tw_wide@(tw_from_bits@(tw_less@(i, above & ~0x7fffff)) - 1.0f);
    const DOUBLE s = f / (f + 2.0), z = s * s;
    const DOUBLE log2 = {_doubles("z", _LOG2_FIT)} * s + tw_wide@(tw_converted@(above >> 23));
    const DOUBLE least = log2 * tw_wide@(y);
    const DOUBLE low = tw_pick@(least > -200.0, least, tw_spread@(-200.0));
    const DOUBLE power = tw_pick@(low < 200.0, low, tw_spread@(200.0));
    const DOUBLE whole = tw_near@(power);
    const DOUBLE rest = power - whole, root = {_doubles("rest", _EXP2_FIT)};
    const FLOAT shifted = tw_narrow@(whole) + {12582912 + 2 * 127}.0f;
    const INT n = tw_bits@(shifted), half = n >> 1;
    const FLOAT inner = tw_narrow@(root) * tw_power_of_2@(half) * tw_power_of_2@(n - half);
    const INT ends = (a == 0.0f) | (a == INFINITY) | (b == INFINITY);
    const FLOAT end = tw_choose@((a > 1.0f) == (y > 0.0f), tw_fill@(INFINITY), tw_fill@(0.0f));
    const FLOAT value = tw_choose@(ends, end, inner), unit = b + 8388608.0f;
    const INT bits = tw_bits@(tw_choose@(b < 8388608.0f, unit, b));
    const INT split = (b < 8388608.0f) & (unit - 8388608.0f != b);
    const FLOAT odd = tw_from_bits@(tw_bits@(x) & tw_first@(bits));
    const FLOAT sign = tw_choose@(split | (b >= 16777216.0f), tw_fill@(0.0f), odd);
    const FLOAT even = tw_from_bits@(tw_bits@(value) ^ tw_bits@(sign));
    const INT none = ((x < 0.0f) & (a < INFINITY) & split) | (x != x) | (y != y);
    const INT one = (x == 1.0f) | (y == 0.0f) | ((a == 1.0f) & (b == INFINITY));
    return tw_choose@(one, tw_fill@(1.0f), tw_choose@(none, tw_fill@(NAN), even));
}}
"""

_FUNCTIONS = {
    "atan": _Vectorised(_ATAN),
    "cos": _circular("cos", 1),
    "erf": _Vectorised(_ERF, ("exp",)),
    "exp": _Vectorised(_EXP),
    "expm1": _Vectorised(_EXPM1),
    "log": _Vectorised(_LOG),
    "log1p": _Vectorised(_LOG1P, ("log",)),
    "pow": _Vectorised(_POW),
    "sin": _circular("sin", 0),
    "tanh": _Vectorised(_TANH, ("exp",)),
}
