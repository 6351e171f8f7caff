"""Functions of single precision as C that compilers turn into vectors: no branch, no table.

In: names of elementary functions of `ir.scalar`. Out: C text. Results are within 1.5 units in the
last place on every 500th bit pattern, subnormal, infinite and no numbers included
(`benchmarks/host_functions.py` tries any share of them). Products and sums round apart
(`SEPARATE`), so that every instruction set gives the same bits. The polynomials are fits of our
own, of the least relative error; reductions are Cody and Waite's, "Software Manual for the
Elementary Functions" (1980).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SEPARATE = "-ffp-contract=off"
"""The compiler flag of files that call these functions."""


@dataclass(frozen=True)
class _Vectorised:
    """C of one function, and the functions that it calls."""

    text: str
    calls: tuple[str, ...] = ()


def vector_names() -> dict[str, str]:
    """The C names of the functions that have such a text.

    >>> vector_names()["exp"]
    'tw_expf'
    """
    return {name: f"tw_{name}f" for name in _FUNCTIONS}


def functions_text(names: Iterable[str]) -> str:
    """C of these functions and of what they call; empty for none.

    >>> functions_text([])
    ''
    """
    found: dict[str, str] = {}

    def add(name: str) -> None:
        own = _FUNCTIONS[name]
        for called in own.calls:
            add(called)
        found.setdefault(name, own.text)

    for name in sorted(names):
        add(name)
    return "\n".join([_BITS, *found.values()]) if found else ""


def _polynomial(into: str, of: str, *coefficients: float) -> str:
    """Lines of Horner's rule, from the highest power down."""
    first, *others = coefficients
    lines = [f"    float {into} = {first}f;"]
    lines += [f"    {into} = {into} * {of} + {c}f;" for c in others]
    return "\n".join(lines)


_BITS = """\
static inline float tw_from_bits(int i) { float x; memcpy(&x, &i, sizeof x); return x; }
static inline int tw_bits(float x) { int i; memcpy(&i, &x, sizeof i); return i; }
static inline float tw_power_of_2(int n) { return tw_from_bits((n + 127) << 23); }
"""

# Adding 1.5 * 2 ** 23 rounds to an integer, which then stands in the lowest bits. ln 2 is 0.69...
# of few bits, so that its multiples are exact, and what is left.
_SPLIT = """\
    const float shifted = a * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f;
    const int n = tw_bits(shifted) - 0x4b400000;
    const float high = a - whole * 0.693359375f, low = whole * -2.12194440e-4f;
    const float r = high - low;
"""

_EXP_FIT = (
    0.00138131448, 0.00836941879, 0.041668456, 0.166665152, 0.49999994,
)  # fmt: skip
_EXP = f"""\
static inline float tw_expf(float x)
{{
    float a = x > 89.0f ? 89.0f : x;
    a = a < -104.0f ? -104.0f : a;
{_SPLIT}\
{_polynomial("p", "r", *_EXP_FIT)}
    const float y = 1.0f + (r + r * r * p);
    const int half = n >> 1;
    return y * tw_power_of_2(half) * tw_power_of_2(n - half);
}}
"""

_EXPM1_FIT = (
    0.000198459587, 0.00139416521, 0.00833339151, 0.0416663475, 0.166666657, 0.5,
)  # fmt: skip
# Half of the power of 2, since the largest one is infinite.
_EXPM1 = f"""\
static inline float tw_expm1f(float x)
{{
    float a = x > 89.0f ? 89.0f : x;
    a = a < -17.5f ? -17.5f : a;
{_SPLIT}\
    const float lost = (high - r) - low;
{_polynomial("p", "r", *_EXPM1_FIT)}
    const float s = tw_power_of_2(n - 1), rest = lost + r * r * p;
    const float y = (((s - 0.5f) + r * s) + rest * s) * 2.0f;
    return fabsf(x) < 1e-9f ? x : n == 0 ? r + rest : y;
}}
"""

_LOG_FIT = (
    0.0674659684, -0.116796531, 0.118903242, -0.124051355, 0.142192245, -0.166680068, 0.200021341,
    -0.250000089, 0.333333135,
)  # fmt: skip
# x = 2 ** e (1 + f), where 1 + f is from the root of 1/2 on, which has the bits 0x3f3504f3.
_LOG = f"""\
static inline float tw_logf(float x)
{{
    const int small = x < 1.17549435e-38f;
    const float m = small ? x * 33554432.0f : x;
    const int i = tw_bits(m), e = (i - 0x3f3504f3) >> 23;
    const float f = tw_from_bits(i - (int)((unsigned)e << 23)) - 1.0f, square = f * f;
    const float k = (float)(e - (small ? 25 : 0));
{_polynomial("p", "f", *_LOG_FIT)}
    const float y = f - (0.5f * square - (f * square * p + k * -2.12194440e-4f));
    const float z = x == 0.0f ? -INFINITY : x < 0.0f ? NAN : y + k * 0.693359375f;
    return x < INFINITY ? z : x;
}}
"""

_LOG1P = """\
static inline float tw_log1pf(float x)
{
    const float u = 1.0f + x, v = tw_logf(u);
    const float lost = u >= 2.0f ? 1.0f - (u - x) : x - (u - 1.0f);
    return fabsf(x) < 1e-9f ? x : u > 0.0f && u < INFINITY ? v + lost / u : v;
}
"""

_TANH_FIT = (
    0.00214753975, -0.00818267744, 0.0217029694, -0.0539472029, 0.133332103, -0.333333313,
)  # fmt: skip
_TANH = f"""\
static inline float tw_tanhf(float x)
{{
    const float a = fabsf(x), z = x * x;
{_polynomial("p", "z", *_TANH_FIT)}
    const float near = a + a * z * p, far = 1.0f - 2.0f / (tw_expf(2.0f * a) + 1.0f);
    return copysignf(a < 0.625f ? near : far, x);
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
static inline float tw_erff(float x)
{{
    const float a = fabsf(x), z = x * x, b = a < 4.0f ? a : 4.0f;
{_polynomial("p", "z", *_ERF_NEAR_FIT)}
{_polynomial("g", "b", *_ERF_FAR_FIT)}
    const float far = copysignf(1.0f - tw_expf(-g), x);
    return x != x ? x : a < 1.0f ? x + x * p : far;
}}
"""

_ATAN_FIT = (
    -0.00182247034, 0.0110446122, -0.0314213932, 0.0582028069, -0.0841776654, 0.10957054,
    -0.142651573, 0.199986309, -0.333333015,
)  # fmt: skip
_ATAN = f"""\
static inline float tw_atanf(float x)
{{
    const float a = fabsf(x), t = a > 1.0f ? 1.0f / a : a, z = t * t;
{_polynomial("p", "z", *_ATAN_FIT)}
    const float s = t + t * z * p;
    return copysignf(a > 1.0f ? 1.57079637f - (s + 4.37113883e-8f) : s, x);
}}
"""

_FUNCTIONS = {
    "atan": _Vectorised(_ATAN),
    "erf": _Vectorised(_ERF, ("exp",)),
    "exp": _Vectorised(_EXP),
    "expm1": _Vectorised(_EXPM1),
    "log": _Vectorised(_LOG),
    "log1p": _Vectorised(_LOG1P, ("log",)),
    "tanh": _Vectorised(_TANH, ("exp",)),
}
