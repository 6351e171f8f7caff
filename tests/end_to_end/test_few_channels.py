"""Convolutions of few channels, without a matrix product of a single tap: random operators, every
way to cut them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.candidates import SMALL_MESHES, WHOLE_MESHES, cases
from support.compiled import kernel_of
from support.running import emulated, estimate_ratio, simulated
from tilewright.compiler.checking import random_operands
from tilewright.ops import conv2d

few_channels = pytest.mark.parametrize("algorithm", ["explicit_fused", "direct_vectors"])


@few_channels
@settings(max_examples=12)
@given(st.data())
def test_programs_compute_the_operator(algorithm: str, data: st.DataObject) -> None:
    case = data.draw(cases(algorithm, SMALL_MESHES, ("f64",)))
    operands = random_operands(case.candidate.op, "integers", 0)
    expected = case.candidate.op.reference(*operands)
    np.testing.assert_array_equal(simulated(case, operands), expected, err_msg=str(case))


@few_channels
@settings(max_examples=1)
@given(st.data())
def test_generated_code_computes_the_operator(algorithm: str, data: st.DataObject) -> None:
    batch = data.draw(st.lists(cases(algorithm, WHOLE_MESHES), min_size=4, max_size=4))
    operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
    for c, o, y in zip(batch, operands, emulated(batch, operands), strict=True):
        np.testing.assert_array_equal(y, c.candidate.op.reference(*o), err_msg=str(c))


@few_channels
@settings(max_examples=6)
@given(st.data())
def test_the_estimate_is_near_the_simulation(algorithm: str, data: st.DataObject) -> None:
    case = data.draw(cases(algorithm, WHOLE_MESHES))
    assert 0.9 < estimate_ratio(case) < 1.1


@few_channels
@pytest.mark.parametrize(
    ("kernel", "stride", "height", "width"),
    [
        pytest.param((1, 3), (1, 1), 8, 12, id="one row"),
        pytest.param((1, 3), (1, 2), 8, 12, id="one row, every second column"),
        pytest.param((3, 1), (1, 2), 8, 12, id="one column, every second one"),
        pytest.param((3, 1), (2, 2), 9, 1, id="one column of images of one column"),
        pytest.param((1, 5), (1, 1), 1, 5, id="all of an image of one row"),
    ],
)
def test_kernels_of_one_row_or_column(algorithm, kernel, stride, height, width):
    op = conv2d(
        batch=2,
        in_channels=2,
        out_channels=4,
        height=height,
        width=width,
        kernel=kernel,
        stride=stride,
        padding=0,
    )
    kernel_of_it = kernel_of(op, "sw26010_cg", algorithm=algorithm)
    assert kernel_of_it.check() == "exact"
    x, w = random_operands(op, "integers", 0)
    found = kernel_of_it.simulate(x=x, w=w).outputs["y"]
    np.testing.assert_array_equal(found, op.reference(x, w))
