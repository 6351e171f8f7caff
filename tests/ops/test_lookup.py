"""Looking up in a table: against one element after the other, its loop IR, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ProgramError, ShapeError
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


@given(
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=9),
    st.lists(st.integers(-128, 127), min_size=1, max_size=9).map(lambda half: [*half, *half]),
    st.integers(0, 31),
)
def test_lookups_are_clipped_to_the_ends_of_the_table(numbers, table, shift):
    op = lookup(len(numbers), entries=len(table), shift=shift)
    middle = len(table) // 2
    expected = [
        table[min(max(number // 2**shift, -middle), middle - 1) + middle] for number in numbers
    ]
    assert op.reference(np.array(numbers), np.array(table)).tolist() == expected


def test_the_loop_ir_means_the_same():
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "lookup: n must be a positive integer, found 0"),
        ({"entries": 3}, "lookup: a table of 3 has no middle; an even number of entries"),
        ({"shift": 32}, "lookup: shift must be in 0..31, found 32"),
        (
            {"dtype": "i32,i8:i32:i16"},
            "lookup takes integers and gives elements of its table, found i32 for the integers, "
            "i8 for the table and i16 for the result; --dtype i32,i8:i32:i8",
        ),
    ],
)
def test_operators_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ShapeError) as caught:
        lookup(**{"n": 4} | options)
    assert str(caught.value) == message
