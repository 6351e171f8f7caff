"""Functions on the simulated core against NumPy's and C's, over all of their range."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from support.examples import one_in
from support.routines import assembled
from support.scalars import OF_FLOATS
from tilewright.ir.scalar import FUNCTIONS, Apply, Element
from tilewright.simulate.instruction_level import simulate_core
from tilewright.targets.sw26010.elementwise.functions import LARGEST_ANGLE, has_power
from tilewright.targets.sw26010.elementwise.maps import map_routine

pytestmark = one_in(3)


TABLE = "sw26010_cpe"
PLACES_AT, COUNT_AT, STEPS_AT, STACK_AT = 57_344, 57_408, 57_472, 60_000
MOST = 4096
SPECIAL = (
    *(0.0, 1.0, 0.5, 5e-324, 1e-310, 2.3e-308, 1e-20, 30.0, 1e308, np.inf),
    *(709.782712893384, 709.79, 745.13, 745.14, 708.5),
)
"""Zeros, subnormal numbers, the ends of exp's range, where tanh is 1, and what is infinite."""
FEW_ULPS = 3.0


def computed(expression: str, *x: np.ndarray, vectors: bool = True) -> np.ndarray:
    """The expression by its routine, by vectors or by elements; the result takes x0's place."""
    size, dtype = x[0].itemsize, x[0].dtype
    routine = map_routine(expression, (False,) * len(x), f"f{8 * size}")
    assert routine is not None
    program, found = assembled(routine.text(), TABLE), np.empty_like(x[0])
    for start in range(0, len(found), MOST // len(x)):
        step = 1 if vectors else -1
        memory, firsts = np.zeros(65536 // size, dtype), []
        for number, operand in enumerate(x):
            part = operand[start : start + MOST // len(x)]
            at = number * MOST // len(x)
            memory[at : at + len(part)] = part[::step]
            firsts.append((at + (0 if vectors else len(part) - 1)) * size)
        words, first = memory.view(np.int64), firsts[0]
        moves = [0, 0, 0, 0, 0, step] * (1 + len(x))
        loops = [1, 1, 1, 1, 1, len(part)]
        for place, values in {PLACES_AT: firsts, COUNT_AT: loops, STEPS_AT: moves}.items():
            words[place // 8 : place // 8 + len(values)] = values
        registers = {"$16": first, "$17": PLACES_AT, "$18": COUNT_AT, "$19": STEPS_AT}
        done = simulate_core(
            program,
            entry=routine.name,
            registers={**registers, "$30": STACK_AT},
            local_memory=memory,
            trace=False,
        )
        after = done.local_memory.view(dtype)[: len(part)]
        found[start : start + len(part)] = after[::step]
    return found


def places(seed: int) -> np.ndarray:
    """Numbers of all sizes, near the ends of exp's range, near one, and special ones, of both
    signs.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.normal(size=4000) * 10.0 ** rng.uniform(-320, 4, 4000)
    parts = [rng.uniform(-760, 720, 4000), rng.uniform(-2, 2, 2000), sizes]
    parts += [1 + sizes, rng.uniform(0.6, 1.5, 2000), 10.0 ** rng.uniform(-324, 308, 2000)]
    parts += [rng.uniform(-746, -707, 1000), rng.uniform(709, 710, 1000)]
    x = np.concatenate([*parts, SPECIAL, np.negative(SPECIAL), [np.nan, -0.0]])
    return x[: len(x) // 4 * 4]


def c_power(x: float, exponent: float) -> float:
    """pow of C: NumPy takes the square root for an exponent of a half."""
    if x < 0 and math.isfinite(exponent) and not math.isinf(x) and exponent != int(exponent):
        return math.nan
    if x == 0 and exponent < 0:
        return math.copysign(math.inf, x) if abs(exponent) % 2 == 1 else math.inf
    try:
        return math.pow(x, exponent)
    except OverflowError:
        return math.inf if x > 0 or exponent % 2 == 0 else -math.inf


def of_angles(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """The core has no result for angles that are too large."""
    return np.array([function(v) if abs(v) < LARGEST_ANGLE else math.nan for v in x])


GENERAL = (0.3, -0.5, -1.0, -3.0, 4.0, 5.0, -7.25, 1e-3, 700.1, -2e5, 0.0, 1e300, -1e300)
"""Exponents that are neither quarters nor small: fractions, odd, even, huge ones."""
CASES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp(x0)": np.exp,
    "expm1(x0)": np.expm1,
    "tanh(x0)": np.tanh,
    "log(x0)": np.log,
    "log1p(x0)": np.log1p,
    "sin(x0)": lambda x: of_angles(math.sin, x),
    "cos(x0)": lambda x: of_angles(math.cos, x),
    "atan(x0)": lambda x: np.array([math.atan(v) for v in x]),
    "erf(x0)": lambda x: np.array([math.erf(v) for v in x]),
    "round(x0)": np.rint,
    **{
        f"pow(x0, {e})": lambda x, e=e: np.array([c_power(float(v), e) for v in x])
        for e in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.25, 3.0, *GENERAL)
    },
}


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "elements"])
@pytest.mark.parametrize("expression", CASES)
def test_functions_are_within_a_few_units_in_the_last_place(expression: str, vectors: bool) -> None:
    x = places(len(expression))
    found = computed(expression, x, vectors=vectors)
    with np.errstate(all="ignore"):
        expected = CASES[expression](x)
    require_close((x,), found, expected)


def require_close(x: tuple[np.ndarray, ...], found: np.ndarray, expected: np.ndarray) -> None:
    """Within a few units in the last place, the signs of zeros included."""
    with np.errstate(all="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        apart = np.where(same, 0, np.abs(found - expected) / np.spacing(np.abs(expected)))
    worst = int(np.nanargmax(apart))
    assert apart[worst] <= FEW_ULPS, ([a[worst] for a in x], found[worst], expected[worst])
    assert not np.isnan(apart).any(), [a[np.isnan(apart)] for a in x]
    other = (np.signbit(found) != np.signbit(expected)) & ~np.isnan(expected)
    assert not other.any(), [a[other] for a in x]


@pytest.mark.parametrize("quarter", [1, 2, 3, 1000, 2**20 + 1, 683_565_275])
def test_angles_near_whole_quarters_of_a_turn(quarter: int) -> None:
    """Where next to nothing of the angle is left."""
    x = np.nextafter(quarter * np.pi / 2, [0, np.inf, 0, np.inf]) * [1, 1, -1, -1]
    for name, function in {"sin": math.sin, "cos": math.cos}.items():
        require_close((x,), computed(f"{name}(x0)", x), of_angles(function, x))


@pytest.mark.parametrize("name", OF_FLOATS)
def test_every_function_of_the_table_is_what_arrays_hold(name: str) -> None:
    rng, count = np.random.default_rng(len(name)), FUNCTIONS[name].arity
    edges = np.array(list(product([*SPECIAL, *np.negative(SPECIAL), np.nan], repeat=count))).T
    parts = [rng.uniform(-10, 10, (count, 600)), rng.normal(size=(count, 600)) * 1e4]
    x = np.concatenate([*parts, edges[:, rng.permutation(edges.shape[1])[:1600]]], axis=1)
    x = x[:, : x.shape[1] // 4 * 4]
    scalar = Apply(name, tuple(map(Element, range(count))))
    with np.errstate(all="ignore"):
        expected = np.asarray(scalar.value(list(x)), np.float64)
    found = computed(str(scalar), *x)
    if name in ("sin", "cos", "tan"):
        expected = np.where(np.abs(x[0]) < LARGEST_ANGLE, expected, np.nan)
    if name in ("%", "fmod"):
        with np.errstate(all="ignore"):
            countable = ~(np.abs(x[0] / x[1]) >= 2.0**52) | ~np.isfinite(x[0]) | (x[1] == 0)
        found, expected = found[countable], expected[countable]
    np.testing.assert_allclose(found, expected, rtol=2e-14, atol=2e-15)


def test_remainders_of_any_size_are_exact() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 8000)) * 10.0 ** rng.uniform(-7, 7, (2, 8000))
    np.testing.assert_array_equal(computed("fmod(x0, x1)", x, y), np.fmod(x, y))
    np.testing.assert_array_equal(computed("x0 % x1", x, y), np.mod(x, y))


def test_a_power_of_two_operands_is_that_of_c() -> None:
    """Also where its logarithm is large, and for all pairs of special numbers."""
    rng = np.random.default_rng(5)
    near, far = np.abs(1 + rng.normal(size=2000) / 1e3), 10.0 ** rng.uniform(-308, 308, 2000)
    bases = np.concatenate([near, far])
    exponents = rng.uniform(-745, 710, 4000) / np.log(bases)
    special = [0.0, 5e-324, 1e-300, 0.5, 0.75, 1 - 1e-16, 1.0, 1 + 3e-16, 1.5, 2.0, 3.0, 1e300]
    special += [2.0**51 + 0.5, 2.0**52 + 1, 2.0**53 - 1, 2.0**53, 1e308, np.inf, np.nan]
    pairs = np.array(list(product([*special, *np.negative(special)], repeat=2)))
    x = np.concatenate([bases, pairs[:, 0]])
    y = np.concatenate([exponents, pairs[:, 1]])
    found = computed("pow(x0, x1)", x, y)
    expected = np.array([c_power(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    require_close((x, y), found, expected)


@pytest.mark.parametrize("expression", ["exp(x0)", "tanh(x0)", "pow(x0, 0.75)", "log1p(x0)"])
def test_single_precision_is_rounded_once(expression: str) -> None:
    """Where a few units in the last place of a double do not decide which float is nearest."""
    with np.errstate(all="ignore"):
        x = places(3).astype(np.float32)
    found = computed(expression, x)
    with np.errstate(all="ignore"):
        expected = CASES[expression](x.astype(np.float64)).astype(np.float32)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert np.mean(same) > 0.9999


def test_the_powers_that_are_roots_and_factors() -> None:
    known = [e / 8 for e in range(-8, 40) if has_power(e / 8)]
    assert known == [quarters / 4 for quarters in range(1, 16)]
