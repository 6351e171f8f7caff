"""swDNN's plans are candidates of the tuner: none can be faster than its pick, by the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.cost.roofline import roofline
from tilewright.machine import load_machine
from tilewright.papers.swatop.manual import TUNED
from tilewright.papers.swdnn.fixed_plans import (
    _DOUBLE,
    SEEDS,
    Plan,
    _elements_per_operation,
    _gets,
    execution_efficiency,
    layer,
    swdnn_plan,
)
from tilewright.seeds.space import seeds_for
from tilewright.tune.choose import choose

TUNERS: dict[Plan, str] = {"img": "implicit_fours", "batch": "implicit_columns"}
PLANS: list[tuple[Plan, bool]] = [("img", False), ("batch", False), ("batch", True)]
MEASURED = load_machine("sw26010_measured")
LAYERS = {
    "wide": layer(batch=128, channels=(64, 64), rows=28, cols=28, kernel=3),
    "deep": layer(batch=128, channels=(256, 128), rows=7, cols=7, kernel=3),
    "pointwise": layer(batch=128, channels=(128, 64), rows=14, cols=14, kernel=1),
}


@pytest.mark.parametrize("plan", TUNERS)
def test_a_plans_space_is_one_that_the_tuner_searches(plan: Plan) -> None:
    op = LAYERS["wide"]
    (printed,) = seeds_for(op, SEEDS[plan])
    (searched,) = (seed for seed in seeds_for(op) if seed.name == TUNERS[plan])
    assert replace(printed, name=searched.name) == searched
    assert TUNERS[plan] in TUNED["implicit"]


@pytest.mark.parametrize("name", LAYERS)
def test_no_plan_takes_fewer_cycles_than_the_tuners_pick_of_its_space(name: str) -> None:
    op = LAYERS[name]
    for plan, promoted in PLANS:
        (choice,) = choose([op], MEASURED, algorithm=TUNERS[plan], partition="rows", keep=1)
        candidate = swdnn_plan(op, plan, MEASURED, promoted=promoted)
        assert candidate is not None
        assert choice.best.candidate.cycles <= candidate.cycles


@pytest.mark.parametrize(("plan", "promoted"), PLANS)
def test_the_papers_model_counts_what_the_program_fetches(plan: Plan, promoted: bool) -> None:
    candidate = swdnn_plan(LAYERS["wide"], plan, MEASURED, promoted=promoted)
    assert candidate is not None
    roof = roofline(candidate.program(MEASURED), MEASURED, candidate.op.flops)
    bytes_per_operation = _DOUBLE * _elements_per_operation(candidate, promoted)
    found = _gets(roof).required_bytes_per_second
    assert found == pytest.approx(bytes_per_operation * roof.peak_flops)


def test_a_layer_without_shared_columns_has_no_plan_by_columns() -> None:
    """At stride 2 neighbouring outputs do not read what neighbouring taps read."""
    strided = replace(LAYERS["wide"], stride=(2, 2))
    assert "implicit_columns" not in [seed.name for seed in seeds_for(strided)]


def test_a_loop_is_as_efficient_as_its_cycles_leave_time_for_products() -> None:
    """Section VI-B: 8 channels an iteration; the first takes 5 + 16 cycles, others 17 each."""
    assert execution_efficiency(8) == 16 / (5 + 16)
    assert execution_efficiency(24) == pytest.approx(48 / (5 + 2 * 17 + 16))
