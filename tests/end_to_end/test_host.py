"""Properties of every candidate of the algorithms for cores that address main memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import HOSTS, cases
from support.examples import examples
from support.running import simulated
from tilewright.compiler.checking import random_operands
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.printer import print_program
from tilewright.ir.verify import verify

addressed = pytest.mark.parametrize("algorithm", ["direct", "pointwise"])


@addressed
@examples(40)
@given(st.data())
def test_programs_compute_the_operator(algorithm: str, data: st.DataObject) -> None:
    case = data.draw(cases(algorithm, HOSTS))
    operands = random_operands(case.candidate.op, "integers", 0)
    expected = case.candidate.op.reference(*operands)
    np.testing.assert_array_equal(simulated(case, operands), expected, err_msg=str(case))


@addressed
@examples(20)
@given(st.data())
def test_every_stage_verifies_and_survives_as_text(algorithm: str, data: st.DataObject) -> None:
    case = data.draw(cases(algorithm, HOSTS))

    def observe(name: str, program: Program) -> None:
        assert parse(print_program(program)) == program

    program = case.candidate.program(case.machine, observe)
    verify(program, "explicit", in_place=True)
