"""Programs of integers give the reference's bits, whatever the schedule.

Operands come from all that their types hold, so that sums wrap and results saturate.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.candidates import (
    ALGORITHMS,
    HOSTS,
    INTEGERS,
    SMALL_MESHES,
    SQUARE_MESHES,
    Machines,
    cases,
)
from support.examples import examples
from support.running import simulated
from tilewright.compiler.checking import random_operands
from tilewright.ir.nodes import Program
from tilewright.ir.parser import parse
from tilewright.ir.primitives import Requantise
from tilewright.ir.printer import print_program
from tilewright.ir.verify import verify
from tilewright.ir.visit import calls_of
from tilewright.tune.legal import rules_of

of_integers = pytest.mark.parametrize(
    "algorithm", [name for name in ALGORITHMS if not name.startswith("winograd")]
)
"""Winograd's transforms divide."""

EVERY = Machines((*SMALL_MESHES, *HOSTS))


@of_integers
@examples(12)
@given(st.data())
def test_programs_compute_the_operator(algorithm: str, data: st.DataObject) -> None:
    """The simulator's numbers are those of the interpreter: one run judges both."""
    case = data.draw(cases(algorithm, EVERY, INTEGERS))
    op = case.candidate.op
    operands = random_operands(op, "integers", 0)
    found, expected = simulated(case, operands), op.reference(*operands)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected, err_msg=str(case))


@of_integers
@examples(5)
@given(st.data())
def test_programs_verify_and_survive_as_texts(algorithm: str, data: st.DataObject) -> None:
    case = data.draw(cases(algorithm, Machines((*SQUARE_MESHES, *HOSTS)), INTEGERS))
    program = case.candidate.program(case.machine)
    verify(program, "explicit", in_place=rules_of(case.machine).in_place)
    assert parse(print_program(program)) == program
    assert one_rounding(program) == case.candidate.op.numerics.requantises


def one_rounding(program: Program) -> bool:
    """True where results come from sums of another type, which main memory never holds."""
    calls = [call for call, _ in calls_of(program.body, Requantise)]
    for call in calls:
        sums = call.operands[1]
        assert not any(t.name.endswith("_sums") for t in program.tensors)
        assert program.element_type(sums) != program.element_type(call.operands[0])
    return bool(calls)
