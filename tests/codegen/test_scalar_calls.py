"""Headers that expressions need."""

import pytest

from tilewright.codegen.c.scalar_calls import has_expressions
from tilewright.ir.parser import parse

PROGRAM = """\
def p():
    x: tensor("f64", "scratch", n=4)
    y: tensor("f64", "scratch", n=4)
    {call}
"""


@pytest.mark.parametrize(
    ("call", "needs"),
    [
        ('fill(y[at(0, 4)]("e"), value=0.0)', False),
        ('fill(y[at(0, 4)]("e"), value=float("-inf"))', True),
        ('copy(y[at(0, 4)]("e"), x[at(0, 4)]("e"))', False),
        ('map(y[at(0, 4)]("e"), x[at(0, 4)]("e"), expression="exp(x0)")', True),
    ],
)
def test_functions_and_infinities_need_the_header_of_mathematics(call, needs):
    assert has_expressions(parse(PROGRAM.format(call=call))) == needs
