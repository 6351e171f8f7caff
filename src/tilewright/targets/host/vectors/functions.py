"""Single-precision functions as C, on elements that compilers vectorise, or on whole vectors.

In: names of elementary functions of `ir.scalar`. Out: C text, without tables. Results are within 2
units in the last place for any argument, including subnormals, infinities and NaNs (`make
host-functions`). Multiply-adds are fused instructions; processors without them use double
precision, where the product is exact and an inexact sum is rounded to odd, so that narrowing it
rounds only once. Other products and sums round separately (`SEPARATE`), so that every instruction
set computes the same bits. The polynomials are fits of our own with least relative error; argument
reduction follows Cody and Waite, "Software Manual for the Elementary Functions" (1980), for angles
Payne and Hanek, "Radian Reduction for Trigonometric Functions" (1983).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.common.dtypes import F32
from tilewright.ir.scalar import operations, parse_scalar
from tilewright.targets.host.vectors.instruction_sets import InstructionSet, vector_text

SEPARATE = "-ffp-contract=off"
"""Compiler flag of files that call these functions."""


def own_flags(text: str) -> tuple[str, ...]:
    """Compiler flags that a C file needs besides those of all generated code."""
    return (SEPARATE,) if "tw_power_of_2" in text else ()


@dataclass(frozen=True)
class _Vectorised:
    """C text of one function, and the functions that it calls. On vectors, an optional `fast` text
    handles usual arguments and calls `text`, then named `..._any`, for rare ones; both may call a
    `shared` text.
    """

    text: str
    calls: tuple[str, ...] = ()
    fast: str = ""
    shared: str = ""


SMALL = "0x1p17f"
"""Magnitude of angles below which they are reduced in single precision."""


def vector_names(*, vectors: bool = False) -> dict[str, str]:
    """C names of the functions with a text, on elements or on whole `vectors`; among them the
    divisor of a sigmoid, 1 + exp(-x).

    >>> vector_names()["exp"], vector_names(vectors=True)["exp"]
    ('tw_expf', 'tw_exp_vector')
    """
    suffix = "_vector" if vectors else "f"
    return {name: f"tw_{name}{suffix}" for name in _FUNCTIONS}


def functions_text(names: Iterable[str], *, vectors: bool = False) -> str:
    """C text of these functions and of those that they call; empty for none. With `vectors`, they
    map values of an instruction set's type `tw_vector_f32`.
    """
    found: dict[str, str] = {}

    def add(name: str) -> None:
        own = _FUNCTIONS[name]
        for called in own.calls:
            add(called)
        text = own.text + own.fast if vectors else own.text.replace("_any@", "@")
        found.setdefault(name, own.shared + text)

    for name in sorted(names):
        add(name)
    if not found:
        return ""
    # A loop that calls a function vectorises only if the function is inlined.
    own, inlined = "\n".join(found.values()), "static inline __attribute__((always_inline))"
    own = own.replace("static inline", inlined)
    own = re.sub(r"static inline \S+ (FLOAT \w+_any@)", r"static __attribute__((noinline)) \1", own)
    text = "\n".join([_VECTOR if vectors else _SCALAR, _HELPERS, own])
    words = ("float", "int", "double", "f")
    if vectors:
        words = ("tw_vector_f32", "tw_truth_f32", "tw_doubles", "_vector")
    for word, value in zip(("FLOAT", "INT", "DOUBLE", "@"), words, strict=True):
        text = text.replace(word, value)
    return text


def called_functions(text: str, isa: InstructionSet) -> str:
    """C text of the functions that `text` calls, on elements and on vectors of `isa`."""
    parts = [vector_text(isa, (F32,))] if "tw_vector_f32" in text else []
    for vectors in (False, True):
        names = vector_names(vectors=vectors).items()
        called = [name for name, c in names if f"{c}(" in text]
        parts.append(functions_text(called, vectors=vectors))
    return "\n".join(filter(None, parts))


def function_operations(name: str) -> int:
    """Vector operations of a function and of those it calls, counted in their texts for usual
    arguments; a quotient counts as several.

    >>> function_operations("exp"), function_operations("tanh") > function_operations("exp")
    (19, True)
    """
    own = _FUNCTIONS[name]
    return _operations(own.shared + own.fast or own.text) + sum(map(function_operations, own.calls))


_OPERATION = re.compile(r" (?:[-+*/&|<>]|<<|>>|[<>=!]=) |tw_(\w+)@\(")


def _operations(text: str) -> int:
    """Operations in one C function; helpers count those inside them, doubles two vectors."""
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
    "absolute": 1, "all": 2, "capped": 1, "choose": 1, "converted": 1, "fused": 1, "larger": 1,
    "left": 1, "less": 1, "narrow": 2, "near": 1, "pick": 1, "power_of_2": 1, "scaled": 6,
    "shifted": 2, "signed": 3, "smaller": 1, "whole": 1, "wide": 1,
}  # fmt: skip


def _polynomial(into: str, of: str, *coefficients: float) -> str:
    """C lines of a polynomial by Horner's rule, from the highest power down. A long polynomial is
    split into even and odd powers, which halves the chain of dependent steps.
    """
    if len(coefficients) < _LONG:
        return _horner(into, of, coefficients)
    last, other = coefficients[::-2][::-1], coefficients[-2::-2][::-1]
    lines = [f"    const FLOAT {into}2 = {of} * {of};"]
    lines += [_horner(into, f"{into}2", last), _horner(f"{into}1", f"{into}2", other)]
    return "\n".join([*lines, f"    {into} = tw_fused@({into}1, {of}, {into});"])


_LONG = 4
"""Number of coefficients from which a polynomial is split in two."""


def _horner(into: str, of: str, coefficients: Sequence[float]) -> str:
    first, *others = coefficients
    lines = [f"    FLOAT {into} = tw_fill@({first}f);"]
    lines += [f"    {into} = tw_fused@({into}, {of}, tw_fill@({float(c)}f));" for c in others]
    return "\n".join(lines)


# The exponent of 2 is in the lowest bits of `n`, with twice the bias: it is split into two powers
# of 2, since one would not reach subnormal results. Without a bias it is added to an exponent.
_HELPERS = """\
static inline FLOAT tw_absolute@(FLOAT x) { return tw_from_bits@(tw_bits@(x) & 0x7fffffff); }
static inline FLOAT tw_signed@(FLOAT size, FLOAT x)
{
    return tw_from_bits@((tw_bits@(size) & 0x7fffffff) | (tw_bits@(x) & ~0x7fffffff));
}
static inline FLOAT tw_power_of_2@(INT n) { return tw_from_bits@(tw_left@(n, 23)); }
static inline FLOAT tw_shifted@(FLOAT x, INT n)
{
    return tw_from_bits@(tw_more@(tw_bits@(x), tw_left@(n, 23)));
}
#ifndef tw_scaled@
static inline FLOAT tw_scaled@(FLOAT x, FLOAT whole, INT n)
{
    const INT half = n >> 1;
    return x * tw_power_of_2@(half) * tw_power_of_2@(n - half);
}
#endif
"""

# Integers wrap around like those of vectors. With a positive limit, the smaller float is that of
# the smaller integer, for which there is an instruction; the argument of `capped` may be a NaN.
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
static inline float tw_cappedf(float high, float x) { return high < x ? high : x; }
static inline int tw_leftf(int i, int bits) { return (int)((unsigned)i << bits); }
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
#ifdef __FP_FAST_FMAF
static inline float tw_fusedf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
static inline float tw_fusedf(float a, float b, float c)
{
    const double x = (double)a * b, sum = x + c, other = sum - x;
    const double lost = (x - (sum - other)) + (c - other);
    long long bits;
    memcpy(&bits, &sum, sizeof bits);
    const long long odd = ((lost > 0) | (lost < 0)) & ~bits & 1;
    bits += (lost > 0) == (sum > 0) ? odd : -odd;
    double nearest;
    memcpy(&nearest, &bits, sizeof bits);
    return (float)nearest;
}
#endif
static inline int tw_moref(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
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
#define tw_capped@ tw_smaller@
static inline FLOAT tw_converted@(INT i) { return __builtin_convertvector(i, FLOAT); }
static inline FLOAT tw_fill@(float x) { return tw_broadcast_f32(x); }
#ifdef tw_fused_f32
#define tw_fused@ tw_multiply_add_f32
#else
static inline FLOAT tw_fused@(FLOAT a, FLOAT b, FLOAT c)
{
    const DOUBLE x = tw_wide@(a) * tw_wide@(b), third = tw_wide@(c), sum = x + third;
    const DOUBLE other = sum - x, lost = (x - (sum - other)) + (third - other);
    const tw_longs odd = ((lost > 0) | (lost < 0)) & ~(tw_longs)sum & 1;
    const tw_longs away = (lost > 0) ^ (sum > 0);
    return tw_narrow@((DOUBLE)((tw_longs)sum + (odd ^ away) - away));
}
#endif
#ifdef tw_scaled_f32
#define tw_scaled@(x, whole, n) ((void)(n), tw_scaled_f32(x, whole))
#endif
#define tw_all@ tw_all_f32
#define tw_left@(i, bits) ((i) << (bits))
#define tw_more@(a, b) ((a) + (b))
#define tw_less@(a, b) ((a) - (b))
"""


def _split(bias: int, most: int, *, negative: bool = False) -> str:
    """C lines that split `a` into `whole` times ln 2 and a rest `r`; if `negative`, a = r - whole *
    ln 2. Adding 1.5 * 2 ** 23 rounds to an integer and leaves it in the lowest bits of `n`; with
    the `bias` of an exponent, a shift makes it a power of 2. From `most` on, results are infinite.
    ln 2 is the nearest float and a correction.
    """
    same, other = ("-", "") if negative else ("", "-")
    return f"""\
    const FLOAT up = tw_fill@({12582912 + bias}.0f);
    const FLOAT shifted = tw_fused@(a, tw_fill@({same}1.44269504f), up);
    const FLOAT limited = tw_smaller@(up + {most}.0f, shifted), whole = limited - up;
    const INT n = tw_bits@(limited);
    const FLOAT high = tw_fused@(whole, tw_fill@({other}0.693147182f), a);
    const FLOAT r = tw_fused@(whole, tw_fill@({same}1.90465421e-9f), high);
"""


_EXP_FIT = (
    0.00138131448, 0.00836941879, 0.041668456, 0.166665152, 0.49999994, 1, 1,
)  # fmt: skip
_EXP = f"""\
static inline FLOAT tw_exp@(FLOAT x)
{{
    const FLOAT a = tw_larger@(tw_fill@(-104.0f), x);
{_split(2 * 127, 129)}\
{_horner("p", "r", _EXP_FIT)}
    return tw_scaled@(p, whole, n);
}}
"""

# 1 + exp(-x) rounds to 1 for small powers, so one power of 2 is enough: half of it, as the largest
# would be infinite, times twice exp's polynomial.
_DIVISOR_FIT = [2 * (-1) ** i * c for i, c in enumerate(_EXP_FIT)]
_SIGMOID_DIVISOR = f"""\
static inline FLOAT tw_sigmoid_divisor@(FLOAT x)
{{
    const FLOAT a = tw_capped@(tw_fill@(86.0f), x);
{_split(126, 128, negative=True)}\
{_horner("p", "r", _DIVISOR_FIT)}
    return tw_fused@(p, tw_power_of_2@(n), tw_fill@(1.0f));
}}
"""

_EXPM1_FIT = (
    0.000198459587, 0.00139416521, 0.00833339151, 0.0416663475, 0.166666657, 0.5,
)  # fmt: skip
# Half of the power of 2, since the largest would be infinite.
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
# x = 2 ** e (1 + f), where 1 + f is at least the root of 1/2, whose bits are 0x3f3504f3. A
# subnormal x is scaled by 2 ** 25 and its exponent lowered by 25, to below 0.
_LOGARITHM = f"""\
    const INT above = tw_less@(i, 0x3f3504f3);
    const FLOAT f = tw_from_bits@(tw_less@(i, above & ~0x7fffff)) - 1.0f, square = f * f;
{_polynomial("p", "f", *_LOG_FIT)}
    const FLOAT near = tw_fused@(tw_fused@(p, f, tw_fill@(-0.5f)), square, f);
    const FLOAT y = tw_fused@(tw_converted@(above >> 23), tw_fill@(0.693147182f), near);
"""
_SUBNORMAL = """\
    const FLOAT scaled = tw_from_bits@(tw_less@(tw_bits@(a * 0x1p25f), 25 << 23));
    const INT i = tw_bits@(tw_choose@(a < 0x1p-126f, scaled, a));
"""
_LOG = f"""\
static inline FLOAT tw_log_any@(FLOAT a)
{{
{_SUBNORMAL}{_LOGARITHM}\
    const FLOAT z = tw_choose@(a < INFINITY, y, a);
    const FLOAT none = tw_choose@(a == 0.0f, tw_fill@(-INFINITY), tw_fill@(NAN));
    return tw_choose@(a > 0.0f, z, none);
}}
"""
_LOG_FAST = f"""\
static inline FLOAT tw_log@(FLOAT x)
{{
    if (!tw_all@((x >= 0x1p-126f) & (x < INFINITY)))
        return tw_log_any@(x);
    const INT i = tw_bits@(x);
{_LOGARITHM}\
    return y;
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
# Beyond 1, erf is 1 - exp(-g); beyond 4 it rounds to 1.
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
"""1 / (2 pi) in parts of 26 bits, whose products with floats are exact in double precision, and one
of 53: for magnitudes below 2 ** 40, below 2 ** 84 and above, without bits that make whole turns.
"""
_SIN_FIT = (2.60609568e-06, -0.000198097769, 0.00833306927, -0.166666597)


def _turned(part: int) -> str:
    near, far, farther = (f"tw_spread@({row[part]})" for row in _TURN)
    beyond = f"tw_pick@(square < 0x1p168, {far}, {farther})"
    return f"wide * tw_pick@(square < 0x1p80, {near}, {beyond})"


# The sine of `n` half turns plus `r`.
_CIRCLE = f"""\
    const FLOAT z = r * r;
{_horner("p", "z", _SIN_FIT)}
    const FLOAT sine = tw_fused@(r * z, p, r);
    const FLOAT turned = tw_from_bits@(tw_bits@(sine) ^ tw_left@(n, 31));
"""


_CIRCULAR_FAST = f"""\
static inline FLOAT tw_NAME@(FLOAT x)
{{
    if (!tw_all@(tw_absolute@(x) < {SMALL}))
        return tw_NAME_any@(x);
    return tw_NAME_small@(x);
}}
"""


def _circular(name: str, ahead: int) -> _Vectorised:
    """The sine `ahead` quarters of a turn ahead, by the distance from the nearest half turn. Small
    angles subtract half turns in three parts; the first difference is exact. Other angles become
    fractions of a turn: whole turns are subtracted after each product, so that sums stay exact
    until they are as small as for any argument. Squares are compared in double precision, as a
    compiler would widen the truth of a comparison in single precision for each choice. The sine of
    a zero keeps its sign.
    """
    scaled = "tw_fused@(x, tw_fill@(0.318309886f), "
    halves = f"{scaled}tw_fill@(-0.5f)) + up" if ahead else f"{scaled}up)"
    middle, behind = (" + 0.5f", " - 0.25") if ahead else ("", "")
    result = "turned" if ahead else "tw_choose@(x == 0.0f, x, turned)"
    small = f"""\
static inline FLOAT tw_{name}_small@(FLOAT x)
{{
    const FLOAT up = tw_fill@({12582912 + ahead}.0f);
    const FLOAT shifted = {halves}, whole = shifted - up{middle};
    const INT n = tw_bits@(shifted);
    const FLOAT most = tw_fused@(whole, tw_fill@(-3.1415925f), x);
    const FLOAT more = tw_fused@(whole, tw_fill@(-1.50995789e-7f), most);
    const FLOAT r = tw_fused@(whole, tw_fill@(-1.07806051e-14f), more);
{_CIRCLE}\
    return {result};
}}
"""
    text = f"""\
static inline FLOAT tw_{name}_any@(FLOAT x)
{{
    const DOUBLE wide = tw_wide@(x), square = wide * wide;
    const DOUBLE first = {_turned(0)};
    const DOUBLE high = first - tw_whole@(first);
    const DOUBLE more = high - tw_near@(high) + {_turned(1)};
    const DOUBLE most = more - tw_near@(more) + {_turned(2)};
    const DOUBLE part = most - tw_near@(most) + {_turned(3)}{behind};
    const DOUBLE nearest = part + 0x1.8p51 - 0x1.8p51;
    const FLOAT r = tw_narrow@((part - nearest) * 0x1.921fb54442d18p2);
    const FLOAT halves = tw_narrow@(nearest) * 2.0f + {12582912 + ahead}.0f;
    const INT n = tw_bits@(halves);
{_CIRCLE}\
    return tw_choose@(tw_absolute@(x) < {SMALL}, tw_{name}_small@(x), turned);
}}
"""
    return _Vectorised(text, (), _CIRCULAR_FAST.replace("NAME", name), small)


_LOG2_FIT = (0.416220218, 0.577064753, 0.961796701)
_EXP2_FIT = (
    0.00015327103, 0.00133912417, 0.00961850584, 0.0555035919, 0.240226477, 0.693147182,
)  # fmt: skip
_EXP2 = f"""\
    const FLOAT square = r * r;
{_horner("q", "r", _EXP2_FIT[:2])}
{_horner("q1", "r", _EXP2_FIT[2:4])}
{_horner("q2", "r", _EXP2_FIT[4:])}
    q = tw_fused@(tw_fused@(q, square, q1), square, q2);
    const FLOAT root = tw_fused@(q, r, tw_fill@(1.0f));
"""
# log2 of the float with bits `i`: its mantissa m, at least the fourth root of 1/2, is reduced to
# s = (m - c) / (m + c), with rounding error `tail`, where c is 1 or the float closest to 2 ** half,
# `half` having 17 bits. The sum has two parts, as its product with `y` needs 7 bits more. Its
# approximation `about` is known before `rest` and decides the integer part of the exponent. Powers
# that are floats are exact.
_POWER = f"""\
    const INT above = tw_less@(i, 0x3f5744fd);
    const FLOAT m = tw_from_bits@(tw_less@(i, above & ~0x7fffff));
    const INT upper = m >= 1.18920708f;
    const FLOAT half = tw_choose@(upper, tw_fill@(0.500152588f), tw_fill@(0.0f));
    const FLOAT c = tw_choose@(upper, tw_fill@(1.41436315f), tw_fill@(1.0f));
    const FLOAT f = m - c, t = m + c, inverse = 1.0f / t, s = f * inverse, z = s * s;
    const FLOAT over = tw_fused@(s, m - (t - c), tw_fused@(s, t, -f)), tail = over * inverse;
{_horner("p", "z", _LOG2_FIT)}
    const FLOAT cubic = tw_fused@(z, p, tw_fill@(3.85192599e-8f));
    const FLOAT slope = tw_fused@(z, tw_fill@(-2.88539004f), tw_fill@(-2.88539004f));
    const FLOAT exponent = tw_converted@(above >> 23), whole = exponent + half;
    const FLOAT log2 = tw_fused@(s, tw_fill@(2.88539004f), whole);
    const FLOAT lost = tw_fused@(s, tw_fill@(2.88539004f), whole - log2);
    const FLOAT rest = tw_fused@(s, cubic, tw_fused@(slope, tail, lost));
    const FLOAT about = tw_fused@(z, s * {_LOG2_FIT[-1]}f, log2);
"""
_POW_FAST = f"""\
static inline FLOAT tw_pow@(FLOAT x, FLOAT y)
{{
    const INT i = tw_bits@(x);
{_POWER}\
    const FLOAT up = tw_fill@(12582912.0f);
    const FLOAT shifted = tw_fused@(y, about, up), near = shifted - up;
    if (!tw_all@(tw_larger@(tw_absolute@(exponent), tw_absolute@(near)) < 125.0f))
        return tw_pow_any@(x, y);
    const FLOAT r = tw_fused@(y, rest, tw_fused@(y, log2, -near));
{_EXP2}\
    return tw_shifted@(root, tw_bits@(shifted));
}}
"""
# `end` is the power of 0 or infinity, or with an infinite exponent.
_POW = f"""\
static inline FLOAT tw_pow_any@(FLOAT x, FLOAT y)
{{
    const FLOAT a = tw_absolute@(x), b = tw_absolute@(y);
{_SUBNORMAL}{_POWER}\
    const FLOAT up = tw_fill@({12582912 + 2 * 127}.0f);
    const FLOAT limited = tw_smaller@(up + 129.0f, tw_fused@(y, about, up));
    const FLOAT shifted = tw_larger@(up - 152.0f, limited), near = shifted - up;
    const FLOAT left = tw_fused@(y, rest, tw_fused@(y, log2, -near));
    const FLOAT r = tw_larger@(tw_fill@(-1.0f), tw_smaller@(tw_fill@(1.0f), left));
{_EXP2}\
    const FLOAT inner = tw_scaled@(root, near, tw_bits@(shifted));
    const INT ends = (a == 0.0f) | (a == INFINITY) | (b == INFINITY);
    const FLOAT end = tw_choose@((a > 1.0f) == (y > 0.0f), tw_fill@(INFINITY), tw_fill@(0.0f));
    const FLOAT value = tw_choose@(ends, end, inner), unit = b + 8388608.0f;
    const INT bits = tw_bits@(tw_choose@(b < 8388608.0f, unit, b));
    const INT split = (b < 8388608.0f) & (unit - 8388608.0f != b);
    const FLOAT odd = tw_from_bits@(tw_bits@(x) & tw_left@(bits, 31));
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
    "log": _Vectorised(_LOG, (), _LOG_FAST),
    "log1p": _Vectorised(_LOG1P, ("log",)),
    "pow": _Vectorised(_POW, (), _POW_FAST),
    "sigmoid_divisor": _Vectorised(_SIGMOID_DIVISOR),
    "sin": _circular("sin", 0),
    "tanh": _Vectorised(_TANH, ("exp",)),
}
