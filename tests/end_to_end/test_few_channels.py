"""Convolutions of few channels, without a matrix product of a single tap: random operators, every
way to cut them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.candidates import SMALL_MESHES, WHOLE_MESHES, cases
from support.running import emulated, estimate_ratio, simulated
from tilewright.compiler.checking import random_operands

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
