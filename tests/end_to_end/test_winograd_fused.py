"""Winograd's minimal filtering in the scratchpad alone: random operators, every way to cut them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.candidates import SMALL_MESHES, WHOLE_MESHES, cases
from support.running import emulated, estimate_ratio, simulated
from tilewright.compiler.checking import random_operands

FUSED = ("winograd2_fused", "winograd2_fours")
every_algorithm = pytest.mark.parametrize("algorithm", FUSED)


@every_algorithm
@settings(max_examples=8)
@given(st.data())
def test_programs_compute_the_operator(algorithm: str, data: st.DataObject) -> None:
    case = data.draw(cases(algorithm, SMALL_MESHES, ("f64",)))
    operands = random_operands(case.candidate.op, "integers", 0)
    found = simulated(case, operands)
    np.testing.assert_array_equal(found, case.candidate.op.reference(*operands), err_msg=str(case))


@settings(max_examples=1)
@given(st.lists(cases("winograd2_fused", WHOLE_MESHES), min_size=4, max_size=4))
def test_generated_code_computes_the_operator(batch: list) -> None:
    operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
    for c, o, y in zip(batch, operands, emulated(batch, operands), strict=True):
        np.testing.assert_array_equal(y, c.candidate.op.reference(*o), err_msg=str(c))


@settings(max_examples=6)
@given(cases("winograd2_fused", WHOLE_MESHES))
def test_the_estimate_is_near_the_simulation(case) -> None:
    assert 0.9 < estimate_ratio(case) < 1.1
