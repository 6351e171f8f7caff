"""Convolution tap by tap on vectors of pixels: random operators, every way to cut them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.candidates import SMALL_MESHES, WHOLE_MESHES, cases
from support.running import emulated, estimate_ratio, simulated
from tilewright.compiler.checking import random_operands

ALGORITHM = "direct_vectors"


@settings(max_examples=12)
@given(cases(ALGORITHM, SMALL_MESHES, ("f64",)))
def test_programs_compute_the_operator(case) -> None:
    operands = random_operands(case.candidate.op, "integers", 0)
    found = simulated(case, operands)
    np.testing.assert_array_equal(found, case.candidate.op.reference(*operands), err_msg=str(case))


@settings(max_examples=1)
@given(st.lists(cases(ALGORITHM, WHOLE_MESHES), min_size=4, max_size=4))
def test_generated_code_computes_the_operator(batch: list) -> None:
    operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
    for c, o, y in zip(batch, operands, emulated(batch, operands), strict=True):
        np.testing.assert_array_equal(y, c.candidate.op.reference(*o), err_msg=str(c))


@settings(max_examples=6)
@given(cases(ALGORITHM, WHOLE_MESHES))
def test_the_estimate_is_near_the_simulation(case) -> None:
    assert 0.9 < estimate_ratio(case) < 1.1
