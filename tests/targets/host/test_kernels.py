"""Generated kernels compute the operators exactly, whatever the algorithm, structure and tiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOST_ALGORITHMS, Case, cases
from support.examples import examples
from support.native import NATIVE_HOSTS, assert_exact, assert_within_bound, native_results
from tilewright.compiler.checking import random_operands

BATCH = 12
"""Candidates that are compiled together."""

pytestmark = pytest.mark.hypothesis  # the properties are inside, where the algorithm is known
every_algorithm = pytest.mark.parametrize("algorithm", HOST_ALGORITHMS)


@every_algorithm
def test_integers_are_computed_exactly(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS), min_size=BATCH, max_size=BATCH))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "integers", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert_exact(c, o, y)

    check()


@every_algorithm
def test_floats_round_within_the_bound(algorithm: str) -> None:
    @examples(1)
    @given(st.lists(cases(algorithm, NATIVE_HOSTS, ("f32",)), min_size=4, max_size=4))
    def check(batch: list[Case]) -> None:
        operands = [random_operands(c.candidate.op, "floats", i) for i, c in enumerate(batch)]
        for c, o, y in zip(batch, operands, native_results(batch, operands), strict=True):
            assert_within_bound(c, o, y)

    check()
