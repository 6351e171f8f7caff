"""Nests written as texts: places of elements, and axes by their names."""

from __future__ import annotations

import pytest

from tilewright.common.errors import ScheduleError
from tilewright.common.expr import Var
from tilewright.seeds.nest import Use, axis, nest, tensor


def test_axes_called_by_name_count_through_the_dimensions_that_they_are_alone_in() -> None:
    image = tensor("x", "input", "rows=n + 2, cols=8", operand=0)
    windows = tensor("y", "output", "rows=n, cols=8")
    made = nest(
        "rows", "copy", "row col tap", {"p": "row", "q": "col"},
        windows.on("row, col"), image.on("row + tap, col"), inner="tap", extents={"tap": 3},
    )  # fmt: skip
    assert made.axes == (axis("row", Var("n")), axis("col", 8), axis("tap", 3, inner=True))
    assert made.inputs == (Use(image, (Var("row") + Var("tap"), Var("col"))),)


def test_an_axis_that_counts_through_nothing_a_wrong_number_of_places_and_no_text_are_refused(
) -> None:  # fmt: skip
    image = tensor("x", "input", "rows=n + 2, cols=8", operand=0)
    with pytest.raises(
        ScheduleError, match=r"^no tensor has a dimension that 'tap' counts through$"
    ):
        nest("rows", "copy", "row tap", {"p": "row"}, image.on("row + tap, 0"), image.on("row, 0"))
    with pytest.raises(ScheduleError, match=r"^tensor 'x' has 2 dimensions, 'row' 1$"):
        image.on("row")
    with pytest.raises(ScheduleError, match=r"^'on\(row,\)\)' cannot be read$"):
        image.on("row,)")
