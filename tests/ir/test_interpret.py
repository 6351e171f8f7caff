"""Regions of tensors as the interpreter moves them, against one element after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir.interpret import interpret
from tilewright.ir.parser import parse

MOVED = """\
def moved():
    x: tensor("f64", "input", rows=3, cols=7)
    y: tensor("f64", "output", cores=4, rows=4, cols=5)
    tile: buffer("f64", 32)
    get(x[at({row}), at({col})], tile[0])
    wait(tile[0])
    put(tile[0], y[at(cid * 2 + rid, 1), at(0, {rows}), at(0, {cols})])
    wait(tile[0])
"""
numbers = st.integers(-4, 8)
steps = st.integers(1, 3)


@given(st.tuples(numbers, numbers, st.integers(1, 4), steps), st.tuples(numbers, numbers, steps))
def test_a_region_may_differ_between_cores_and_is_zero_outside_the_tensor(row, col):
    """Columns begin elsewhere on each core, and the second row of the mesh takes one more."""
    first, apart, rows, row_step = row
    left, aside, col_step = col
    program = parse(
        MOVED.format(
            row=f"{first} + rid * {apart}, {rows}, {row_step}",
            col=f"{left} + cid * {aside}, 3 + rid, {col_step}",
            rows=rows,
            cols="3 + rid",
        )
    )
    x = np.arange(1.0, 22.0).reshape(3, 7)
    expected = np.full((4, 4, 5), np.nan)
    for rid, cid, i, j in np.ndindex(2, 2, rows, 4):
        if j < 3 + rid:
            r, c = first + rid * apart + i * row_step, left + cid * aside + j * col_step
            inside = 0 <= r < 3 and 0 <= c < 7
            expected[cid * 2 + rid, i, j] = x[r, c] if inside else 0.0
    found = interpret(program, {"x": x}, mesh=(2, 2))["y"]
    np.testing.assert_array_equal(found, expected)
