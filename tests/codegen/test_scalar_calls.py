"""Loops of expressions as C, and headers that they need."""

import pytest

from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.codegen.c.expression import Scope
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS, has_expressions
from tilewright.codegen.c.writer import CWriter
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


def written(call: str, x: str = "f64", y: str = "f64") -> str:
    """The lines of a call on buffers x and y of these types."""
    program = parse(f'def p():\n    x: buffer("{x}", 99)\n    y: buffer("{y}", 99)\n    {call}\n')
    (stmt,) = program.body
    context = CallContext(program, Naming("p", {}, {"x": "x", "y": "y"}, {}), Scope(), CWriter())
    SCALAR_CALLS[type(stmt.primitive)](stmt.primitive, stmt.operands, context)
    return context.writer.text()


def test_a_reduction_gathers_inside_the_loops_over_its_results():
    y = 'y[0](at(0, 2), at(1, 3), shape=(2, 5), roles="ab")'
    x = 'x[0](at(0, 2), at(0, 3), at(2, 4), shape=(2, 5, 7), roles="abk")'
    assert (
        written(f'reduce({y}, {x}, function="sum")')
        == """\
{
    double *const tw_to = y + 1;
    const double *const tw_from0 = x + 2;
    long tw_at0, tw_at1, tw_at2;
    for (tw_at0 = 0; tw_at0 < 2; tw_at0++) {
        for (tw_at1 = 0; tw_at1 < 3; tw_at1++) {
            double tw_sum = tw_to[tw_at0 * 5 + tw_at1];
            for (tw_at2 = 0; tw_at2 < 4; tw_at2++) {
                tw_sum += (double)tw_from0[tw_at0 * 35 + tw_at1 * 7 + tw_at2];
            }
            tw_to[tw_at0 * 5 + tw_at1] = (double)tw_sum;
        }
    }
}
"""
    )


def test_a_map_takes_the_same_element_along_axes_that_an_operand_lacks():
    y = 'y[0](at(0, 2), at(0, 3), shape=(2, 5), roles="ab")'
    assert (
        written(f'map({y}, x[0](shape=(3,), roles="b"), expression="x0 + 1")')
        == """\
{
    double *const tw_to = y;
    const double *const tw_from0 = x;
    long tw_at0, tw_at1;
    for (tw_at0 = 0; tw_at0 < 2; tw_at0++) {
        for (tw_at1 = 0; tw_at1 < 3; tw_at1++) {
            tw_to[tw_at0 * 5 + tw_at1] = (double)(((double)tw_from0[tw_at1] + 1.0));
        }
    }
}
"""
    )


@pytest.mark.parametrize(
    ("x", "y", "kind", "value"),
    [("i16", "f32", "float", "(float)(((double)tw_from0[tw_at0] + 1.0))"),
     ("f32", "i16", "short", "(short)((double)tw_from0[tw_at0] + 1.0)")],
)  # fmt: skip
def test_the_result_of_a_map_is_converted_to_the_type_of_its_buffer(
    x: str, y: str, kind: str, value: str
) -> None:
    call = 'map(y[0](shape=(3,), roles="b"), x[0](shape=(3,), roles="b"), expression="x0 + 1")'
    text = written(call, x, y)
    assert f"    {kind} *const tw_to = y;\n" in text
    assert f"        tw_to[tw_at0] = {value};\n" in text
