"""Maps of several instructions: a call for each, with fetches of the next tile between."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.ir.visit import calls_of
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.ops.numerics import real_types
from tilewright.targets.cambricon.code import image_of
from tilewright.targets.cambricon.primitives import RoundedStep
from tilewright.targets.cambricon.runtime import Device
from tilewright.targets.cambricon.vector_steps import step_expression, vector_steps_of

SHAPE = (8000,)


@pytest.mark.parametrize(
    "expression",
    [
        "max(max((x0 == x1) * x2, (x1 == x2) + (x1 == x2)), x2 == x0)",
        "tanh(x0) + 0.5 * x1 - x2",
        "exp(x0 - 0.5) / log(x1) if x1 > x2 else x0",
        "sigmoid(x0) * x1 * (1.0 - x2)",
        "x0 if not (x0 > x1 or x1 == x2) else 0.0",
    ],
)
def test_the_expression_of_a_step_is_that_step(expression: str) -> None:
    for step in vector_steps_of(expression, 3, 8).steps:
        own, places = step_expression(step, 8)
        (made,) = vector_steps_of(own, len(places), 8).steps
        sources = tuple(places[source - 1] for source in made.sources)
        assert (made.mnemonic, sources, made.immediate) == (
            step.mnemonic,
            step.sources,
            step.immediate,
        )


def test_transfers_of_a_map_run_beside_its_steps() -> None:
    """Seven instructions on three operands: the device has the bits of the program's meaning and
    takes the time of its vector unit but for a first and a last tile, as the model says.
    """
    own = straight(SHAPE)
    expression = "exp(x0 - x1) * x2 + exp(x1) * x0 - x2"
    op = InMemory(SHAPE, own, (own,) * 3, expression, dtype=real_types("q8.8"))
    kernel = tw.compile(op, machine="dla-al").plan.only
    assert len([*calls_of(kernel.program.body, RoundedStep)]) >= 7
    assert kernel.check() == "exact"
    run = Device(image_of(kernel.artifact, kernel.machine), kernel.machine).launch(values=False)
    assert run.unit_busy["VECTOR"] > 0.9 * run.cycles
    assert abs(kernel.estimate_cycles - run.cycles) <= 0.02 * run.cycles
