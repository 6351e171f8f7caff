"""Convolutions of few images whose input rows stay for several taps: random operators, every way to
cut them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.candidates import SMALL_MESHES, WHOLE_MESHES, cases
from support.compiled import kernel_of
from support.running import emulated, simulated
from tilewright.common.errors import ScheduleError
from tilewright.compiler.checking import random_operands
from tilewright.ops import conv2d
from tilewright.seeds.space import seeds_for
from tilewright.seeds.steps import Spread, Vectorize, Walk

ROWS = "implicit_rows"
BY_ROW, WALK = Spread("out_row", "columns"), Walk("out_row", "core_row")


@settings(max_examples=16)
@given(st.data())
def test_programs_compute_the_operator(data: st.DataObject) -> None:
    case = data.draw(cases(ROWS, SMALL_MESHES, ("f64",)))
    operands = random_operands(case.candidate.op, "integers", 0)
    expected = case.candidate.op.reference(*operands)
    np.testing.assert_array_equal(simulated(case, operands), expected, err_msg=str(case))


@settings(max_examples=2)
@given(st.data())
def test_generated_code_computes_the_operator(data: st.DataObject) -> None:
    batch = data.draw(st.lists(cases(ROWS, WHOLE_MESHES), min_size=4, max_size=4))
    operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
    for c, o, y in zip(batch, operands, emulated(batch, operands), strict=True):
        np.testing.assert_array_equal(y, c.candidate.op.reference(*o), err_msg=str(c))


def layer(in_channels, out_channels, height, width):
    channels = {"in_channels": in_channels, "out_channels": out_channels}
    return conv2d(batch=1, **channels, height=height, width=width, kernel=3, padding=1)


@pytest.mark.parametrize(
    ("op", "steps"),
    [
        pytest.param(layer(64, 32, 16, 32), (BY_ROW, Vectorize("n")), id="for a kernel column"),
        pytest.param(layer(64, 128, 8, 14), (WALK, Vectorize("m")), id="for a kernel row"),
        pytest.param(layer(128, 32, 8, 16), (WALK, Vectorize("n")), id="for a kernel row, packed"),
    ],
)
def test_each_way_is_the_best_of_a_layer(op, steps):
    kernel = kernel_of(op, "sw26010_cg", algorithm=ROWS)
    (nest,) = kernel.option.candidate.nests
    assert set(steps) <= set(nest.structure.steps)
    assert bool(nest.structure.decisions.walks) == (WALK in steps)
    assert kernel.check() == "exact"
    assert kernel.option.cycles == pytest.approx(kernel.simulate().cycles, rel=0.05)


@pytest.mark.parametrize(
    ("op", "pixels"),
    [
        pytest.param(layer(64, 32, 32, 32), 3 * (4 + 2) * 32, id="a kernel column"),
        pytest.param(layer(64, 128, 8, 14), 3 * (14 + 2), id="a kernel row"),
    ],
)
def test_input_rows_are_fetched_once_for_several_taps(op, pixels):
    """In pixels of one core of a mesh row: four output rows with two further ones, or one row with
    its border, for each kernel column or row. Tap by tap it would be nine times the result's.
    """
    run = kernel_of(op, "sw26010_cg", algorithm=ROWS).simulate()
    asked_bytes = sum(t.asked_bytes for t in run.tensors if t.tensor == "x")
    assert asked_bytes / (8 * op.in_channels * 8) == pixels


@pytest.mark.parametrize(
    "changes",
    [{"batch": 32}, {"kernel": (1, 1), "padding": (0,) * 4}, {"stride": (1, 2)}],
    ids=["many images", "one tap", "every second column"],
)
def test_others_have_no_rows_that_stay(changes):
    op = replace(layer(8, 8, 8, 8), **changes)
    with pytest.raises(ScheduleError) as caught:
        seeds_for(op, ROWS)
    assert str(caught.value) == f"{ROWS} does not apply to {op.describe()}"
