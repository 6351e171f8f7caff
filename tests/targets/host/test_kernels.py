"""Generated kernels compute the operators exactly, whatever the algorithm, structure and tiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOST_ALGORITHMS, Case, cases
from support.examples import examples
from support.native import NATIVE_HOSTS, native_results
from support.running import error_in_ulps
from tilewright.compiler.checking import random_operands

BATCH = 12
"""Candidates that are compiled together."""
ULPS = {"winograd2": 6.0, "winograd4": 24.0, "winograd6": 200.0}
DIRECT_ULPS = 10.0

every_algorithm = pytest.mark.parametrize("algorithm", HOST_ALGORITHMS)


def bound_of(case: Case) -> float:
    return ULPS.get(case.candidate.seed.name, DIRECT_ULPS)


INEXACT = ("winograd4", "winograd6")
"""Their points are no integers: what is exact for integers in theory is rounded."""


def error_of(case: Case, operands: tuple[object, ...], found: object) -> float:
    per_element = not case.candidate.seed.name.startswith("winograd")
    return error_in_ulps(case.candidate.op, operands, found, per_element=per_element)


@every_algorithm
def test_integers_are_computed_exactly(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            if algorithm in INEXACT:
                assert error_of(c, o, y) <= bound_of(c), repr(c)
            else:
                np.testing.assert_array_equal(y, c.candidate.op.reference(*o), err_msg=repr(c))

    check()


@every_algorithm
def test_floats_round_within_the_bound(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS, ("f32",)), min_size=4, max_size=4))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "floats", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert error_of(c, o, y) <= bound_of(c), repr(c)

    check()
