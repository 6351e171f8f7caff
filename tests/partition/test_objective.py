"""Objectives by hand: weights of values and cycles, their names, volumes that are summed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.partition.objective import (
    ACTIVATIONS,
    TIME,
    TRAFFIC,
    WITHOUT_INPUTS,
    Volume,
    Weights,
)

LOADS: Any = SimpleNamespace(
    weights=np.array([1, 2]), sums=np.array([10, 20]), work=np.array([0.5, 1.0])
)
INPUTS = np.array([1000, 2000])
MODEL: Any = SimpleNamespace(
    flops_per_cycle=4,
    outside=lambda weights, inputs: 100 * weights + inputs,
    load_cycles=lambda values: values / 10,
)


def test_a_grid_costs_what_it_loads_and_sums_up_and_its_cycles_where_a_machine_is_known() -> None:
    """8 operations at 4 a cycle, and a cycle for ten values that come from outside."""
    values = [3 * 1 + 5 * 10 + 11 * 1000, 3 * 2 + 5 * 20 + 11 * 2000]
    cycles = [0.5 * 8 / 4 + 1100 / 10, 1.0 * 8 / 4 + 2200 / 10]
    own = Weights(activations=13, weights=3, sums=5, cycles=7, inputs=11)
    found = own.alone(8, LOADS, INPUTS, MODEL)
    np.testing.assert_allclose(found, [v + 7 * c for v, c in zip(values, cycles, strict=True)])
    np.testing.assert_array_equal(own.alone(8, LOADS, INPUTS, None), values)
    still = Weights(weights=3, sums=5, inputs=11)
    np.testing.assert_array_equal(still.alone(8, LOADS, INPUTS, MODEL), values)


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (TRAFFIC, "traffic"),
        (WITHOUT_INPUTS, "activations and weights and sums"),
        (ACTIVATIONS, "activations and sums"),
        (TIME, "time"),
        (Weights(2, 1, 0), "2 x activations + 1 x weights"),
        (Weights(0, 0, 0.5, 3), "0.5 x sums and 3 for each cycle"),
        (Weights(1, 1, 1, 40, 1), "traffic and 40 for each cycle"),
    ],
)
def test_an_objective_is_named_by_what_it_counts(weights: Weights, text: str) -> None:
    assert weights.describe() == text


def test_volumes_are_summed_kind_by_kind() -> None:
    assert Volume(1, 10, 100, 1000) + Volume(2, 20, 200, 2000) == Volume(3, 30, 300, 3000)
    assert Volume(3, 30, 300, 3000).total == 3333
    assert Volume() == Volume(0, 0, 0, 0)
    assert Weights(0, 0, 0, 1, 0) == TIME
    assert Weights(1, 1, 1, 0, 0) == WITHOUT_INPUTS
