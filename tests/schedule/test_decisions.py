"""Steps of a nest taken together, and steps that make no sense for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.nests import COL, PRODUCT, ROW, WINDOWS, A, M
from tilewright.common.errors import ScheduleError
from tilewright.common.expr import evaluate
from tilewright.ops import conv2d
from tilewright.schedule.decisions import Rules, decisions
from tilewright.schedule.lower import tile
from tilewright.seeds.nest import Use, axis, nest, tensor
from tilewright.seeds.space import seeds_for
from tilewright.seeds.steps import parse_schedule

SPLIT = "split(row, row_tile)\nsplit(col, col_tile)\nsplit(depth, depth_tile)\n"


def test_no_step_at_all() -> None:
    p = decisions(PRODUCT, ())
    assert (p.order, p.splits, p.spreads, p.layouts, p.stages, p.vector) == ((), {}, {}, {}, {}, "")
    assert decisions(WINDOWS, ()).order == ("step",)


def test_each_split_axis_is_a_loop_in_the_order_of_the_nest() -> None:
    steps = parse_schedule("split(depth, depth_tile)\nsplit(row, tile)").steps
    p = decisions(PRODUCT, steps)
    assert p.order == ("row", "depth")
    assert p.splits == {"depth": "depth_tile", "row": "tile"}


def test_steps_may_come_in_any_order() -> None:
    text = SPLIT + "spread(row, rows)\nvectorize(m)\nreorder(col, depth, row)\nstage(a, depth)"
    steps = parse_schedule(text).steps
    p = decisions(PRODUCT, steps)
    assert decisions(PRODUCT, steps[::-1]) == p
    assert p.order == ("col", "depth", "row")
    assert (p.spreads, p.stages, p.vector) == ({"row": "rows"}, {"a": "depth"}, "m")


def test_how_operands_of_a_matrix_product_are_cut() -> None:
    """Each core holds blocks of C, A and B (swDNN Fig. 3): k over columns in A, over rows in B."""
    text = SPLIT + "spread(row, rows)\nspread(col, columns)\nspread(depth, both)"
    p = decisions(PRODUCT, parse_schedule(text).steps)
    cut = {
        operand: (p.direction(i, first), p.direction(i, second))
        for i, (operand, first, second) in enumerate(
            (("c", "row", "col"), ("a", "row", "depth"), ("b", "depth", "col"))
        )
    }
    assert cut == dict.fromkeys("cab", ("rows", "columns"))


def test_what_is_not_spread_is_whole_in_every_core() -> None:
    p = decisions(WINDOWS, parse_schedule("split(row, r)\nsplit(col, c)\nspread(col, rows)").steps)
    assert [p.direction(0, a) for a in ("row", "col", "tap")] == ["", "rows", ""]


PLACES = nest(
    "places",
    "copy",
    (ROW, COL),
    {"p": ROW, "q": COL},
    Use(tensor("y", "output", places=M * 8), (ROW.var * 8 + COL.var,), exact=True),
    A.on("row, col"),
)
"""Rows of n columns lie eight places apart."""


@pytest.mark.parametrize(
    ("text", "rows_are_loops", "end"),
    [
        ("split(col, c)", True, None),
        ("split(col, c)\nspread(col, rows)", True, 2 * 8 + 5),
        ("split(col, c)\nspread(col, rows)", False, 6 * 8 + 5),
        ("split(row, r)\nsplit(col, c)\nspread(col, rows)", False, (2 * 3 + 2) * 8 + 5),
        ("split(row, r)\nsplit(col, c)\nspread(row, rows)", False, 6 * 8 + 2 * 2 + 2),
    ],
)
def test_tiles_of_an_exact_result_end_with_what_their_axes_reach(
    text: str, rows_are_loops: bool, end: int | None
) -> None:
    """In iteration 2 of 7 rows and 5 columns, in tiles of 3 and 2: what is spread or whole ends
    with its axis, other axes with their own tile. Nothing is cut where nothing is spread.
    """
    roles = (("q", COL),) if rows_are_loops else (("p", ROW), ("q", COL))
    own = replace(PLACES, roles=tuple((a.name, letter) for letter, a in roles))
    (found,) = tile(decisions(own, parse_schedule(text).steps), own.output, 0).ranges
    at = {"row": 2, "col": 2, "m": 7, "n": 5, "r": 3, "c": 2}
    assert (found.stop if found.stop is None else evaluate(found.stop, at)) == end


def test_two_axes_share_a_line_of_cores_only_where_blocks_need_not_be_full() -> None:
    steps = parse_schedule(
        "split(row, r)\nsplit(col, c)\nspread(row, rows)\nspread(col, rows)"
    ).steps
    assert decisions(WINDOWS, steps, Rules(partial_blocks=True)).spreads == {
        "row": "rows", "col": "rows"
    }  # fmt: skip
    with pytest.raises(ScheduleError, match=r"spread\(row, rows\): col is cut over rows already"):
        decisions(WINDOWS, steps)


@pytest.mark.parametrize(
    ("step", "shared"),
    [
        ("layout(a, depth, rows)", True),
        ("reorder(col, row, depth)", True),
        ("stage(a, row)", True),
        ("vectorize(n)", True),
        ("pad(row)", False),
        ("spread(row, rows)", False),
    ],
)
def test_schedules_that_cut_the_axes_alike_share_the_ranges_of_their_tiles(
    step: str, shared: bool
) -> None:
    """How long a tile is and where it begins follows neither from orders nor from vectors."""
    cut = parse_schedule("split(row, r)\nsplit(col, c)\nsplit(depth, d)").steps
    plain, other = decisions(PRODUCT, cut), decisions(PRODUCT, (*cut, *parse_schedule(step).steps))
    assert (other.ranges is plain.ranges) == shared


@given(st.integers(1, 9), st.integers(1, 3), *[st.integers(1, 4)] * 3, st.booleans())
@example(by_row=5, by_col=2, rows=2, cols=3, row=1, dense=False)
def test_the_range_of_a_tile_has_all_places_that_its_axes_reach(
    by_row: int, by_col: int, rows: int, cols: int, row: int, dense: bool
) -> None:
    """It ends with the last one, and with steps between its places none is there in vain."""
    by_row = by_col * cols if dense else by_row
    col = axis("col", cols, inner=True)
    places = Use(tensor("y", "output", places=99), (ROW.var * by_row + col.var * by_col + 7,))
    own = nest("places", "copy", (ROW, col), {"p": ROW, "q": col}, places, A.on("row, col"))
    (found,) = tile(decisions(own, parse_schedule("split(row, r)").steps), own.output, 0).ranges
    at = {"row": row, "r": rows}
    start, extent, step = (evaluate(e, at) for e in (found.start, found.extent, found.step))
    reached = {7 + (row * rows + i) * by_row + j * by_col for i in range(rows) for j in range(cols)}
    covered = {start + i * step for i in range(extent)}
    assert reached <= covered
    assert (min(covered), max(covered)) == (min(reached), max(reached))
    assert step == 1 or covered == reached


REFUSALS = {
    "split(rows, tile)": "nest 'product' has no axis 'rows'; its axes are row, col, depth",
    "fuse(rows, n)": "nest 'product' has no axis 'rows'; its axes are row, col, depth",
    "spread(rows, rows)": "nest 'product' has no axis 'rows'; its axes are row, col, depth",
    "fuse(row, x)": "nest 'product' has no dimension 'x'; choose one of m, n, k",
    "layout(w, rows)": "nest 'product' has no tensor 'w'; its tensors are c, a, b",
    "layout(a, rows, cols)": "the dimensions of 'a' are rows, depth",
    "layout(a, rows)": "the dimensions of 'a' are rows, depth",
    "layout(a, rows, rows, depth)": "the dimensions of 'a' are rows, depth",
    "stage(w, row)": "nest 'product' has no tensor 'w'; its tensors are c, a, b",
    "stage(a, channel)": "there is no such loop; the loops are row, col, depth",
    "reorder(row, col)": "these are not the loops; the loops are row, col, depth",
    "reorder(row, col, depth, row)": "these are not the loops; the loops are row, col, depth",
    "reorder(row, col, k)": "these are not the loops; the loops are row, col, depth",
    "vectorize(k)": "a matrix product is vectorised along m or n",
    "spread(row, columns)": "a matrix product cuts m over rows",
    "spread(depth, rows)": "a matrix product cuts k over both",
    "spread(row, sideways)": "a matrix product cuts m over rows",
    "split(row, other)": "contradicts split(row, row_tile); leave one of them",
    "split(row, row_tile)": "contradicts split(row, row_tile); leave one of them",
}


@pytest.mark.parametrize(("step", "message"), REFUSALS.items(), ids=REFUSALS)
def test_refusals_of_a_matrix_product(step: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        decisions(PRODUCT, parse_schedule(SPLIT + step).steps)
    assert str(caught.value) == f"{step}: {message}"


OTHER_REFUSALS = {
    "split(tap, tile)": "'copy' takes tap whole",
    "split(step, col)": "the name 'col' is taken; give the factor a name of its own",
    "split(step, m)": "the name 'm' is taken; give the factor a name of its own",
    "split(step, rid)": "the name 'rid' is taken; give the factor a name of its own",
    "split(step, y_copies)": "the name 'y_copies' is taken; give the factor a name of its own",
    "split(step, x_copies)": "the name 'x_copies' is taken; give the factor a name of its own",
    "split(step, r)": "the name 'r' is taken; give the factor a name of its own",
    "split(step, col_granule)": "the name 'col_granule' is taken; give the factor a name of its "
    "own",
    "spread(step, columns)": "step is not split; add split(step, step_tile)",
    "spread(col, both)": "'copy' is cut over rows, columns or cores",
    "spread(col, rows)": "row is cut over rows already",
    "vectorize(n)": "'copy' is not vectorised by choice",
}  # fmt: skip


@pytest.mark.parametrize(("step", "message"), OTHER_REFUSALS.items(), ids=OTHER_REFUSALS)
def test_refusals_of_another_nest(step: str, message: str) -> None:
    steps = parse_schedule(f"{step}\nsplit(row, r)\nsplit(col, c)\nspread(row, rows)").steps
    with pytest.raises(ScheduleError) as caught:
        decisions(WINDOWS, steps)
    assert str(caught.value) == f"{step}: {message}"


def test_a_loop_is_no_dimension_of_the_matrix_product() -> None:
    op = conv2d(batch=1, in_channels=1, out_channels=1, height=3, width=3, kernel=3)
    (seed,) = seeds_for(op, "implicit")
    steps = parse_schedule("split(out_row, rows_tile)\nspread(out_row, rows)").steps
    with pytest.raises(ScheduleError) as caught:
        decisions(seed.spaces[0].nest, steps)
    assert str(caught.value) == (
        "spread(out_row, rows): out_row is no dimension of the matrix product"
    )


SKEWED = "split(out_col, cols)\nskew(out_col, kernel_col, in_col)"
CONVOLUTION = conv2d(batch=1, in_channels=1, out_channels=1, height=3, width=3, kernel=3)
(IMPLICIT,) = seeds_for(CONVOLUTION, "implicit")


def test_a_skewed_loop_stands_outside_the_loop_that_it_meets() -> None:
    p = decisions(IMPLICIT.spaces[0].nest, parse_schedule(SKEWED).steps)
    assert p.order == ("group", "out_row", "out_col", "kernel_row", "in_col", "kernel_col")


SKEW_REFUSALS = {
    "skew(in_cols, kernel_col, in_col)": "nest 'implicit' has no axis 'in_cols'; its axes are "
    "group, out_row, out_col, image, out_channel, in_channel, kernel_row, kernel_col",
    "skew(image, kernel_col, in_col)": "the primitive takes image, it is no loop",
    "skew(out_row, kernel_row, in_row)": "out_row is not split; split out_row",
    "skew(out_col, out_row, in_col)": "out_row is split; leave out_row whole",
    "skew(out_col, kernel_col, cols)": "the name 'cols' is taken; give the loop a name of its own",
    "skew(out_col, group, in_col)": "its loops are in another order; "
    "put them in the order out_col, in_col, group",
    "pad(out_col)": "no part of out_col is inside the primitive; split and fuse out_col",
    "pad(image)": "image is spread, and padded for that",
    "whole(image)": "image is split; leave one of them",
    "whole(out_channel)": "out_channel is not spread; spread it",
}  # fmt: skip


@pytest.mark.parametrize(("step", "message"), SKEW_REFUSALS.items(), ids=SKEW_REFUSALS)
def test_refusals_of_skewed_padded_and_whole_axes(step: str, message: str) -> None:
    others = ["split(out_col, cols)", "split(image, images)", "spread(image, columns)"]
    if "out_row, in_col" in step:
        others.append("split(out_row, rows)")
    with pytest.raises(ScheduleError) as caught:
        decisions(IMPLICIT.spaces[0].nest, parse_schedule("\n".join([step, *others])).steps)
    assert str(caught.value) == f"{step}: {message}"


WALKED = (
    "split(out_row, rows)\nfuse(out_row, n)\nsplit(out_col, cols)\nfuse(out_col, n)\npad(out_col)\n"
    "spread(out_row, columns)\nwalk(out_row, core_row)"
)


def test_what_a_core_walks_through_is_the_innermost_loop() -> None:
    p = decisions(IMPLICIT.spaces[0].nest, parse_schedule(WALKED).steps)
    assert p.order == ("group", "out_row", "out_col", "kernel_row", "kernel_col", "core_row")


WALK_REFUSALS = {
    "walk(out_rows, core_row)": ("", "nest 'implicit' has no axis 'out_rows'; its axes are "
    "group, out_row, out_col, image, out_channel, in_channel, kernel_row, kernel_col"),
    "walk(out_row, core_row)": ("spread(out_row, columns)", "out_row is not split and spread; "
    "do both"),
    "walk(in_channel, core_channel)": ("", "in_channel is no row or column of a matrix product's "
    "result"),
    "walk(out_row, rows)": ("", "the name 'rows' is taken; give the loop a name of its own"),
    "walk(out_row, row_of_core)": ("pad(out_col)", "the primitive takes n of image, out_col, "
    "which nothing rounds up; pad one of them"),
}  # fmt: skip


@pytest.mark.parametrize(("step", "case"), WALK_REFUSALS.items(), ids=WALK_REFUSALS)
def test_refusals_of_walked_axes(step: str, case: tuple[str, str]) -> None:
    without, message = case
    lines = [line for line in WALKED.splitlines()[:-1] if line != without]
    lines += ["split(in_channel, channels)", "spread(in_channel, both)"]
    with pytest.raises(ScheduleError) as caught:
        decisions(IMPLICIT.spaces[0].nest, parse_schedule("\n".join([*lines, step])).steps)
    assert str(caught.value) == f"{step}: {message}"


def test_what_a_core_walks_through_stands_inside_its_tile() -> None:
    loops = "group, core_row, out_row, out_col, kernel_row, kernel_col"
    with pytest.raises(ScheduleError) as caught:
        decisions(IMPLICIT.spaces[0].nest, parse_schedule(f"{WALKED}\nreorder({loops})").steps)
    assert str(caught.value) == (
        "walk(out_row, core_row): its loops are in another order; put core_row inside out_row"
    )
