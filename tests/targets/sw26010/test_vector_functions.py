"""exp, tanh and powers on the simulated core against NumPy's and C's, over all of their range."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.simulate.instruction_level import simulate_core
from tilewright.targets.sw26010.vector_functions import has_power
from tilewright.targets.sw26010.vector_map import map_routine
from tilewright.targets.sw26010.vector_timing import assembled

TABLE = "sw26010_cpe"
PLACES_AT, COUNT_AT, STEPS_AT, STACK_AT = 57_344, 57_408, 57_472, 60_000
MOST = 4096
SPECIAL = (
    *(0.0, 1.0, 0.5, 5e-324, 1e-310, 2.3e-308, 1e-20, 30.0, 1e308, np.inf),
    *(709.782712893384, 709.79, 745.13, 745.14, 708.5),
)
"""Zeros, subnormal numbers, the ends of exp's range, where tanh is 1, and what is infinite."""
FEW_ULPS = 3.0


def computed(expression: str, x: np.ndarray, *, vectors: bool, dtype: str = "f64") -> np.ndarray:
    """The expression by its routine, by vectors or by elements."""
    routine = map_routine(expression, (False,), dtype)
    assert routine is not None
    program, found = assembled(routine.text(), TABLE), np.empty_like(x)
    for start in range(0, len(x), MOST):
        part = x[start : start + MOST]
        step = 1 if vectors else -1
        memory = np.zeros(65536 // x.itemsize, x.dtype)
        memory[: len(part)] = part[::step]
        first = 0 if vectors else (len(part) - 1) * x.itemsize
        words = memory.view(np.int64)
        moves = [0, 0, 0, 0, 0, step] * 2
        loops = [1, 1, 1, 1, 1, len(part)]
        for place, values in {PLACES_AT: [first], COUNT_AT: loops, STEPS_AT: moves}.items():
            words[place // 8 : place // 8 + len(values)] = values
        registers = {"$16": first, "$17": PLACES_AT, "$18": COUNT_AT, "$19": STEPS_AT}
        done = simulate_core(
            program,
            entry=routine.name,
            registers={**registers, "$30": STACK_AT},
            local_memory=memory,
            trace=False,
        )
        after = done.local_memory.view(x.dtype)[: len(part)]
        found[start : start + MOST] = after[::step]
    return found


def places(seed: int) -> np.ndarray:
    """Numbers of all sizes, near the ends of exp's range, and special ones, of both signs."""
    rng = np.random.default_rng(seed)
    sizes = rng.normal(size=4000) * 10.0 ** rng.uniform(-320, 4, 4000)
    parts = [rng.uniform(-760, 720, 4000), rng.uniform(-2, 2, 2000), sizes]
    parts += [rng.uniform(-746, -707, 1000), rng.uniform(709, 710, 1000)]
    x = np.concatenate([*parts, SPECIAL, np.negative(SPECIAL), [np.nan, -0.0]])
    return x[: len(x) // 4 * 4]


def c_power(x: float, exponent: float) -> float:
    """pow of C: NumPy takes the square root for an exponent of a half."""
    if x < 0 and not math.isinf(x) and exponent != int(exponent):
        return math.nan
    try:
        return math.pow(x, exponent)
    except OverflowError:
        return math.inf if x > 0 or exponent % 2 == 0 else -math.inf


CASES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp(x0)": np.exp,
    "expm1(x0)": np.expm1,
    "tanh(x0)": np.tanh,
    **{
        f"pow(x0, {e})": lambda x, e=e: np.array([c_power(float(v), e) for v in x])
        for e in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.25, 3.0)
    },
}


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "elements"])
@pytest.mark.parametrize("expression", CASES)
def test_functions_are_within_a_few_units_in_the_last_place(expression: str, vectors: bool) -> None:
    x = places(len(expression))
    found = computed(expression, x, vectors=vectors)
    with np.errstate(all="ignore"):
        expected = CASES[expression](x)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        apart = np.where(same, 0, np.abs(found - expected) / np.spacing(np.abs(expected)))
    worst = int(np.nanargmax(apart))
    assert apart[worst] <= FEW_ULPS, (x[worst], found[worst], expected[worst])
    assert not np.isnan(apart).any(), x[np.isnan(apart)]
    numbers = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[numbers].all()


@pytest.mark.parametrize("expression", ["exp(x0)", "tanh(x0)", "pow(x0, 0.75)"])
def test_single_precision_is_rounded_once(expression: str) -> None:
    """Where a few units in the last place of a double do not decide which float is nearest."""
    with np.errstate(all="ignore"):
        x = places(3).astype(np.float32)
    found = computed(expression, x, vectors=True, dtype="f32")
    with np.errstate(all="ignore"):
        expected = CASES[expression](x.astype(np.float64)).astype(np.float32)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    assert np.mean(same) > 0.9999


def test_the_powers_that_are_roots_and_factors() -> None:
    known = [e / 8 for e in range(-8, 40) if has_power(e / 8)]
    assert known == [quarters / 4 for quarters in range(1, 16)]
