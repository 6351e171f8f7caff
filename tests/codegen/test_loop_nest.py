"""Loops of primitives: joined ones visit the same elements, and there are always six."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.c.loop_nest import (
    MAXIMUM_LOOPS,
    match_axes,
    merge_loops,
    padded,
)
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Var, evaluate
from tilewright.ir.loop_axes import Loop, StridedAxis

STRIDES = st.sampled_from([0, 1, 2, 3, 4, 6, 12])
LOOPS = st.lists(st.tuples(st.integers(1, 4), STRIDES, STRIDES), max_size=5)


def visited(loops: tuple[Loop, ...]) -> list[tuple[int, ...]]:
    """The element of each operand in every iteration, in order."""
    counts = [range(int(evaluate(loop.extent, {}))) for loop in loops]
    steps = [[int(evaluate(stride, {})) for stride in loop.strides] for loop in loops]
    return [
        tuple(sum(n * own[i] for n, own in zip(place, steps, strict=True)) for i in range(2))
        for place in product(*counts)
    ]


@given(LOOPS)
def test_joined_loops_visit_the_same_elements_in_order(sizes: list[tuple[int, int, int]]) -> None:
    loops = tuple(Loop(Const(n), (Const(a), Const(b))) for n, a, b in sizes)
    joined = merge_loops([*loops])
    assert visited(joined) == visited(loops)
    for outer, inner in pairwise(joined):
        pairs = zip(outer.strides, inner.strides, strict=True)
        assert any(o != inner.extent * i for o, i in pairs)
    every = padded(joined, 2, "copy")
    assert len(every) == MAXIMUM_LOOPS
    assert visited(every) == visited(loops)


def test_more_loops_than_primitives_take_are_refused() -> None:
    loops = (Loop(Const(2), (Const(1), Const(1))),) * 7
    assert padded(loops[1:], 2, "copy") == loops[1:]
    with pytest.raises(ProgramError) as error:
        padded(loops, 2, "copy")
    assert str(error.value) == (
        "copy needs 7 nested loops, the primitives take 6; merge dimensions of its operands"
    )


def test_an_axis_of_any_extent_is_that_of_all_operands() -> None:
    n, one = Var("n"), Const(1)
    own = [StridedAxis(n, one)]
    assert match_axes("a", (own, own), "copy") == [Loop(n, (one, one))]
    with pytest.raises(ProgramError, match=r"^the operands of copy disagree about axis 'a'"):
        match_axes("a", (own, [StridedAxis(n + 1, one)]), "copy")
