"""Looking up in a table: the primitive's meaning, and what it refuses."""

import numpy as np
import pytest

from tilewright.common.errors import ProgramError
from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse
from tilewright.ir.verify import verify
from tilewright.ops.lookup import lookup

PROGRAM = """\
def lookup():
    y: tensor("{result}", "output", i=3)
    x: tensor("{index}", "input", i=3)
    table: tensor("i8", "input", {extents})
    lookup(y[at(0, 3)]("p"), x[at(0, 3)]("p"), table[{place}]("{roles}"), shift=1)
"""
FORM = {"result": "i8", "index": "i32", "extents": "e=4", "place": "at(0, 4)", "roles": "k"}


def test_the_primitive_means_what_the_operator_does():
    program = parse(PROGRAM.format(**FORM))
    verify(program, "seed")
    x, table = np.array([-9, 2, 1], "i4"), np.array([5, 6, 7, 8], "i1")
    (found,) = interpret(program, {"x": x, "table": table}, mesh=(1, 1)).values()
    assert found.tolist() == [5, 8, 7]
    assert found.tolist() == lookup(3, entries=4, shift=1).reference(x, table).tolist()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"index": "f32"},
            "lookup takes integers and gives elements of its table, found f32 for the integers, "
            "i8 for the table and i8 for the result",
        ),
        (
            {"result": "i16"},
            "lookup takes integers and gives elements of its table, found i32 for the integers, "
            "i8 for the table and i16 for the result",
        ),
        (
            {"extents": "i=3, e=4", "place": "at(0, 3), at(0, 4)", "roles": "pk"},
            "the table of lookup lies along k alone, found the roles 'pk'",
        ),
    ],
)
def test_calls_that_mean_nothing_are_refused(changed, message):
    with pytest.raises(ProgramError) as caught:
        verify(parse(PROGRAM.format(**FORM | changed)), "seed")
    assert message in str(caught.value)
