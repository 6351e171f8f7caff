"""Which combinations of steps make a legal structure, and why others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.nests import COL, DEPTH, PRODUCT, ROW, WINDOWS, A, B, C
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.ops import conv2d
from tilewright.passes.lowering import staging
from tilewright.schedule.decisions import Rules
from tilewright.schedule.structures import build, combinations, legal, structures
from tilewright.seeds.space import Seed, Space, layout, seeds_for
from tilewright.seeds.steps import IN_PLACE, Layout, Stage, parse_schedule

MESH = """\
split(row, row_tile)
split(col, col_tile)
split(depth, depth_tile)
spread(row, rows)
spread(col, columns)
spread(depth, both)
"""
IMPLICIT = """\
split(out_channel, out_channel_tile)
split(image, image_tile)
split(in_channel, in_channel_tile)
split(out_col, out_col_tile)
fuse(out_col, n)
spread(out_channel, rows)
spread(in_channel, both)
spread(image, columns)
reorder(group, out_row, out_col, image, out_channel, in_channel, kernel_row, kernel_col)
vectorize(n)
"""
CONV = conv2d(batch=8, in_channels=8, out_channels=8, height=8, width=8, kernel=3)
(SEED,) = seeds_for(CONV, "implicit")


def refusal(space: Space, text: str) -> str:
    """Why the combination is illegal; `build` leaves it out without a word."""
    steps = parse_schedule(text).steps
    assert build(space, steps, "f64", staging) is None
    with pytest.raises((ScheduleError, ProgramError)) as caught:
        legal(space, steps, "f64", staging)
    return str(caught.value)


def test_vectorising_along_the_contiguous_dimension_of_the_result() -> None:
    for letter, order in (("n", "layout(c, rows, cols)"), ("m", "layout(c, cols, rows)")):
        steps = parse_schedule(f"{MESH}vectorize({letter})\n{order}").steps
        structure = legal(Space(PRODUCT), steps, "f64", staging)
        assert structure.decisions.vector == letter


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            MESH + "vectorize(m)",
            "vectorize(m): the result is contiguous along n; "
            "vectorize(n) or another layout of the result",
        ),
        (
            MESH + "vectorize(n)\nlayout(c, cols, rows)",
            "vectorize(n): the result is contiguous along m; "
            "vectorize(m) or another layout of the result",
        ),
        (
            MESH,
            "no vectorize: the result is contiguous along n; "
            "vectorize(n) or another layout of the result",
        ),
        (
            "split(row, row_tile)\nspread(row, rows)\nvectorize(n)",
            "the whole mesh computes a matrix product, but no n is spread",
        ),
        (
            "vectorize(n)",
            "nest 'product' splits no axis, so that a core holds whole tensors; "
            "split the axes inside the primitive",
        ),
    ],
)
def test_illegal_products(text: str, message: str) -> None:
    assert refusal(Space(PRODUCT), text) == message


def test_a_nest_without_split() -> None:
    assert refusal(Space(WINDOWS), "") == (
        "nest 'windows' splits no axis, so that a core holds whole tensors; "
        "split the axes inside the primitive"
    )


def test_a_view_that_is_no_matrix() -> None:
    """Columns and images of the product are separated by the channels."""
    text = IMPLICIT + "layout(x, group, rows, batch, channels, cols)"
    message = refusal(SEED.spaces[0], text)
    assert message.startswith("x_tile[0](shape=(1, 1, ")
    assert message.endswith(
        ', roles="..nkn") is not a matrix: dimension 3: it lies between dimensions 2 and 4 of role '
        "'n'; make the dimensions of role 'n' adjacent"
    )


def test_a_tile_without_a_fixed_union() -> None:
    """The last tile of output columns is smaller: what all of them need has no one shape."""
    text = IMPLICIT.replace("spread(image, columns)", "spread(out_col, columns)")
    assert refusal(SEED.spaces[0], text + "stage(x, out_col)") == (
        "stage(x): the tile's extent changes inside the loop, it has no fixed union"
    )


def test_what_moves_with_a_skewed_loop_and_its_partner_is_transferred_outside() -> None:
    """The stored column is input column less kernel column: no transfer inside both can know it."""
    text = IMPLICIT.replace("fuse(out_col, n)", "skew(out_col, kernel_col, in_col)")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("reorder"))
    assert refusal(SEED.spaces[0], text) == (
        "skew(out_col, kernel_col, in_col): the tile of 'y' moves with in_col and kernel_col; "
        "stage(y, in_col), or a loop further out"
    )
    outer = "layout(y, group, rows, cols, channels, batch)\nstage(y, kernel_row)"
    legal(SEED.spaces[0], parse_schedule(f"{text}\n{outer}").steps, "f64", staging)


def test_a_skewed_loop_does_not_move_with_a_partner_of_one_turn() -> None:
    text = IMPLICIT.replace("fuse(out_col, n)", "skew(out_col, kernel_col, in_col)")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("reorder"))
    for kernel in (1, 2):
        conv = conv2d(batch=8, in_channels=8, out_channels=8, height=8, width=8, kernel=kernel)
        (seed,) = seeds_for(conv, "implicit")
        if kernel == 1:
            legal(seed.spaces[0], parse_schedule(text).steps, "f64", staging)
        else:
            assert "moves with in_col and kernel_col" in refusal(seed.spaces[0], text)


def product_seed(space: Space) -> Seed:
    orders = (layout(A, ("rows", "depth")), layout(C, ("rows", "cols"), ("cols", "rows")))
    return Seed("mine", (A, B, C), (space,), orders, ("a", "b"), "c")


def test_legal_combinations_of_steps_and_layouts() -> None:
    """Of two layouts and two vectorisations, the two that agree."""
    seed = product_seed(spread_space().vectorize("m", "n"))
    found = structures(seed, seed.spaces[0], "f64", staging)
    assert [(s.decisions.layouts["c"], s.decisions.vector) for s in found] == [
        (("rows", "cols"), "n"),
        (("cols", "rows"), "m"),
    ]
    assert found[0].layouts == {Layout("a", ("rows", "depth")), Layout("c", ("rows", "cols"))}
    assert [str(e) for e in found[0].aligned] == [
        "min(col_tile, ceil_div(n - col * col_tile, col_granule) * col_granule) // mesh_columns"
    ]


def test_only_a_rule_lets_operands_stay_in_main_memory() -> None:
    """Nothing else is said: each operand is staged in a scratchpad."""
    space = spread_space().vectorize("n").in_place(A)
    seed = product_seed(space)
    at = [
        {s.at for own in combinations(seed, space, rules) for s in own if isinstance(s, Stage)}
        for rules in (Rules(), Rules(in_place=True))
    ]
    assert at == [set(), {IN_PLACE}]


def spread_space() -> Space:
    space = Space(PRODUCT).split(ROW, COL, DEPTH)
    return space.spread(ROW, "rows").spread(COL, "columns").spread(DEPTH, "both")


def test_combinations_that_come_out_as_the_same_program_are_one_structure() -> None:
    """A stage outside the innermost loop that the tensor depends on changes nothing."""
    space = spread_space().vectorize("n").reorder((ROW, DEPTH, COL)).stage(A, None, COL)
    (found,) = structures(product_seed(space), space, "f64", staging)
    assert found.decisions.stages == {}


def test_structures_are_the_legal_combinations_whose_programs_differ() -> None:
    space = spread_space().vectorize("m", "n").reorder((ROW, DEPTH, COL), (DEPTH, ROW, COL))
    seed = product_seed(space.stage(A, None, COL))
    made = [build(space, s, "f64", staging) for s in combinations(seed, seed.spaces[0], Rules())]
    told = {(s.staged.body, s.layouts): s.steps for s in reversed(made) if s is not None}
    found = [s.steps for s in structures(seed, seed.spaces[0], "f64", staging)]
    assert found == list(reversed(told.values()))
    assert (len(made), sum(s is not None for s in made), len(found)) == (16, 8, 4)


def test_layers_share_their_structures() -> None:
    (other,) = seeds_for(replace(CONV, height=30, in_channels=64), "implicit")
    assert structures(other, other.spaces[0], "f64", staging) is structures(
        SEED, SEED.spaces[0], "f64", staging
    )


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            Space(PRODUCT).split(ROW, COL).vectorize("m", "n"),
            "none of the 4 schedules of nest 'product' is legal; the first: the whole mesh "
            "computes a matrix product, but no m is spread",
        ),
        (
            spread_space().choose(),
            "nest 'product' has no schedule; give each choice an alternative",
        ),
    ],
)
def test_a_space_without_a_legal_schedule(space: Space, message: str) -> None:
    seed = product_seed(space)
    with pytest.raises(ScheduleError) as caught:
        structures(seed, space, "f64", staging)
    assert str(caught.value) == message


def test_no_reason_is_that_another_schedule_has_its_vectors_along_the_other_dimension() -> None:
    space = spread_space().vectorize("m", "n").choose((Stage("b", IN_PLACE),))
    orders = layout(B, ("cols", "depth")), layout(C, ("rows", "cols"))
    seed = Seed("mine", (A, B, C), (space,), orders, ("a", "b"), "c")
    with pytest.raises(ScheduleError) as caught:
        structures(seed, space, "f64", staging, Rules(partial_blocks=True, in_place=True))
    assert str(caught.value) == (
        "none of the 2 schedules of nest 'product' is legal; the first: 'b' is used in place and "
        "not contiguous along n; another layout of it, or a copy that packs it"
    )


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("algorithm", ["implicit", "explicit", "winograd2", "winograd4"])
def test_every_shipped_algorithm_has_legal_structures(algorithm: str, dtype: str) -> None:
    (seed,) = seeds_for(replace(CONV, dtype=dtype), algorithm)
    for space in seed.spaces:
        found = structures(seed, space, dtype, staging)
        assert all(build(space, s.steps, dtype, staging) is not None for s in found)


def test_a_step_that_makes_no_sense_is_never_left_out_silently() -> None:
    with pytest.raises(ScheduleError) as caught:
        build(Space(PRODUCT), parse_schedule("split(rows, tile)").steps, "f64", staging)
    assert str(caught.value) == (
        "split(rows, tile): nest 'product' has no axis 'rows'; its axes are row, col, depth"
    )


@pytest.mark.parametrize(
    ("vector", "operand", "contiguous"), [("n", "b", "cols"), ("m", "a", "rows")]
)
@pytest.mark.parametrize("fits", [True, False])
def test_what_is_read_by_vectors_in_place_is_contiguous_along_them(
    vector: str, operand: str, contiguous: str, fits: bool
) -> None:
    order = f"depth, {contiguous}" if fits else f"{contiguous}, depth"
    result = "rows, cols" if vector == "n" else "cols, rows"
    text = f"""\
layout({operand}, {order})
layout(c, {result})
split(row, row_tile)
split(col, col_tile)
split(depth, depth_tile)
vectorize({vector})
stage({operand}, in_place)"""
    rules = Rules(partial_blocks=True, in_place=True)
    taken = (Space(PRODUCT), parse_schedule(text).steps, "f64", staging, rules)
    if fits:
        assert legal(*taken).decisions.vector == vector
        return
    with pytest.raises(ScheduleError) as error:
        legal(*taken)
    assert str(error.value) == (
        f"'{operand}' is used in place and not contiguous along {vector}; another layout of it, or "
        "a copy that packs it"
    )
    assert legal(*taken[:-1], replace(rules, along_terms=True)).along_terms
