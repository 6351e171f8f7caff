"""Seeds and spaces as values, and the registry that finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.nests import COL, DEPTH, PRODUCT, ROW, A, B, C
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.ops import Gemm, conv2d, gemm, max_pool2d
from tilewright.schedule.decisions import decisions
from tilewright.seeds.nest import Nest, axis, nest, tensor
from tilewright.seeds.space import (
    Seed,
    Space,
    layout,
    parameters,
    seed,
    seeds_for,
    unregister,
)
from tilewright.seeds.steps import (
    Fuse,
    Layout,
    Reorder,
    Split,
    Spread,
    Stage,
    Vectorize,
    Walk,
    print_step,
)


def test_each_method_of_a_space_is_one_choice() -> None:
    space = (
        Space(PRODUCT)
        .split(ROW, COL)
        .fuse(ROW, into="n")
        .reorder((ROW, COL), (COL, ROW))
        .vectorize("m", "n")
        .spread(ROW, "rows")
        .stage(A, None, COL)
        .choose((Spread("col", "columns"), Stage("b", "row")), ())
        .walk(ROW, "core_row")
    )
    assert space.choices == (
        ((Split("row", "row_tile"), Split("col", "col_tile")),),
        ((Fuse("row", "n"),),),
        ((Reorder(("row", "col")),), (Reorder(("col", "row")),)),
        ((Vectorize("m"),), (Vectorize("n"),)),
        ((Spread("row", "rows"),),),
        ((), (Stage("a", "col"),)),
        ((Spread("col", "columns"), Stage("b", "row")), ()),
        ((Walk("row", "core_row"),),),
    )


def test_a_space_is_the_product_of_its_choices() -> None:
    space = Space(PRODUCT).split(ROW).vectorize("m", "n").stage(A, None, ROW)
    assert ["; ".join(print_step(s) for s in steps) for steps in space.combinations()] == [
        "split(row, row_tile); vectorize(m)",
        "split(row, row_tile); vectorize(m); stage(a, row)",
        "split(row, row_tile); vectorize(n)",
        "split(row, row_tile); vectorize(n); stage(a, row)",
    ]


def test_prefetch_and_limit_are_no_steps() -> None:
    space = Space(PRODUCT).prefetch(A).prefetch(C, B).limit(largest=64, most=2)
    assert space.doubled == ("a", "c", "b")
    assert (space.limits.largest, space.limits.most) == (64, 2)
    assert list(space.combinations()) == [()]


def test_what_a_nest_says_about_itself() -> None:
    assert [use.tensor.name for use in PRODUCT.uses] == ["c", "a", "b"]
    assert PRODUCT.reductions() == {"depth"}
    assert PRODUCT.axis("col") is COL
    assert PRODUCT.uses[1].axes() == {"row", "depth"}


def other(
    primitive: str = "gemm",
    axes: Any = (ROW, COL, DEPTH),
    inputs: Any = PRODUCT.inputs,
    **roles: Any,
) -> Nest:
    """Another nest over the same tensors."""
    return nest("other", primitive, axes, roles, PRODUCT.output, *inputs)


def made(**changes: Any) -> Seed:
    """A seed that is well, but for the changes."""
    parts: dict[str, Any] = {
        "name": "mine",
        "tensors": (A, B, C),
        "spaces": (Space(PRODUCT),),
        "layouts": (layout(A, ("rows", "depth"), ("depth", "rows")), layout(B, ("depth", "cols"))),
        "operands": ("a", "b"),
        "result": "c",
    }
    return Seed(**{**parts, **changes})


def test_joint_layouts_are_the_product_of_the_layouts() -> None:
    b = Layout("b", ("depth", "cols"))
    assert list(made().layout_combinations()) == [
        (Layout("a", ("rows", "depth")), b),
        (Layout("a", ("depth", "rows")), b),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: PRODUCT.axis("rows"),
            "nest 'product' has no axis 'rows'; its axes are row, col, depth",
        ),
        (
            lambda: other("gem"),
            "nest 'other': there is no primitive 'gem'; the primitives are fill, copy, scale_add, "
            "multiply_accumulate, requantise, repack, lookup, map, accumulate, reduce, gemm, "
            "windows, window_sums, winograd_input, winograd_filter, winograd_output, "
            "rounded_product, outer_product, saturating_add, turned, rounded_map, rounded_step, "
            "rounded_reduce",
        ),
        (
            lambda: other(inputs=PRODUCT.inputs[:1]),
            "nest 'other': gemm takes 3 operands, found 2",
        ),
        (
            lambda: other(axes=(ROW, COL), m=ROW, n=COL, k=DEPTH),
            "nest 'other': k is given to 'depth', which is not among the axes",
        ),
        (lambda: other(n=COL), "nest 'other': no axis feeds m, k of gemm"),
        (
            lambda: made(tensors=(A, B)),
            "seed 'mine' has no tensor 'c'; its tensors are a, b",
        ),
        (
            lambda: made(operands=("a", "w")),
            "seed 'mine' has no tensor 'w'; its tensors are a, b, c",
        ),
        (
            lambda: made(layouts=(layout(tensor("x", "input", n=8), ("n",)),)),
            "seed 'mine' has no tensor 'x'; its tensors are a, b, c",
        ),
        (
            lambda: made(layouts=(layout(A, ("depth", "row")),)),
            "seed 'mine': layout(a, depth, row): the dimensions of 'a' are rows, depth",
        ),
    ],
)
def test_seeds_that_contradict_themselves(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        wrong()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: axis("in", 3), "axis 'in'"),
        (lambda: axis("größe", 3), "axis 'größe'"),
        (lambda: tensor("x y", "input", n=3), "tensor 'x y'"),
        (lambda: tensor("x", "input", **{"for": 3}), "dimension 'for'"),
        (
            lambda: nest("a;b", "copy", (), {}, C.on("0, 0"), C.on("0, 0")),
            "nest 'a;b'",
        ),
        (
            lambda: decisions(PRODUCT, (Split("row", "is"),)),
            "factor 'is'",
        ),
    ],
)
def test_names_end_up_in_generated_code(wrong: Callable[[], object], what: str) -> None:
    with pytest.raises(ProgramError) as caught:
        wrong()
    assert str(caught.value) == (
        f"{what} is not an identifier; use ASCII letters, digits and underscores, "
        "no leading digit and no Python keyword"
    )


@pytest.fixture
def registered() -> Iterator[None]:
    seed("gemm", name="mine")(lambda op: made() if op.m > 1 else None)
    seed("gemm", name="slow", baseline=True)(lambda op: made(name="slow"))
    yield
    unregister("gemm", "mine")
    unregister("gemm", "slow")


def names(op: Gemm, only: str | None = None) -> list[str]:
    return [s.name for s in seeds_for(op, only)]


@pytest.mark.usefixtures("registered")
def test_a_registered_seed_is_tried_with_those_that_ship() -> None:
    assert names(gemm(2, 3, 4)) == ["gemm", "mine"]
    assert names(gemm(2, 3, 4), "mine") == ["mine"]


@pytest.mark.usefixtures("registered")
def test_a_seed_may_apply_to_some_operators_only() -> None:
    assert names(gemm(1, 3, 4)) == ["gemm"]
    with pytest.raises(ScheduleError) as caught:
        seeds_for(gemm(1, 3, 4), "mine")
    assert str(caught.value) == "mine does not apply to gemm m1 n3 k4"


@pytest.mark.usefixtures("registered")
def test_baselines_are_tried_only_by_name() -> None:
    assert names(gemm(2, 3, 4), "slow") == ["slow"]
    assert names(gemm(2, 3, 4), "padded") == ["padded"]


@pytest.mark.usefixtures("registered")
def test_a_name_is_given_once() -> None:
    with pytest.raises(ScheduleError) as caught:
        seed("gemm", name="mine")(lambda op: None)
    assert str(caught.value) == "two seeds for gemm are named 'mine'"


def test_forgetting_a_seed() -> None:
    seed("gemm", name="brief", baseline=True)(lambda op: made())
    unregister("gemm", "brief")
    assert names(gemm(2, 3, 4)) == ["gemm"]
    unregister("gemm", "brief")


def test_unknown_algorithms_and_kinds() -> None:
    with pytest.raises(ScheduleError) as caught:
        seeds_for(gemm(2, 3, 4), "winograd2")
    assert str(caught.value) == (
        "gemm has no algorithm 'winograd2'; choose one of gemm, prepacked, padded, library"
    )
    with pytest.raises(ScheduleError) as caught:
        seed("gem", name="mine")(lambda op: None)
    assert (
        str(caught.value)
        == "no seed computes 'gem'; seeds exist for batched_matmul, contraction, conv2d, gemm, "
        "lookup, map, reduce"
    )
    with pytest.raises(ScheduleError) as caught:
        seeds_for(max_pool2d((2, 4, 8, 8), kernel=2))
    assert (
        str(caught.value)
        == "no seed computes 'pool2d'; seeds exist for batched_matmul, contraction, conv2d, gemm, "
        "lookup, map, reduce"
    )


def test_a_seed_has_the_name_it_is_registered_under() -> None:
    seed("gemm", name="brief")(lambda op: made())
    with pytest.raises(ScheduleError) as caught:
        seeds_for(gemm(2, 3, 4))
    unregister("gemm", "brief")
    assert str(caught.value) == "the seed registered as 'brief' calls itself 'mine'"


def test_parameters_are_extents_of_the_operator() -> None:
    assert parameters(gemm(2, 3, 4)) == {"m": 2, "n": 3, "k": 4}
    op = conv2d(
        batch=3, in_channels=4, out_channels=6, height=9, width=8, kernel=3, padding=(1, 2, 0, 1),
        stride=2, groups=2,
    )  # fmt: skip
    assert parameters(op) == {
        "batch": 3, "groups": 2, "in_channels": 2, "out_channels": 3,
        "in_rows": 10, "in_cols": 11, "out_rows": 4, "out_cols": 5,
        "zeros_above": 1, "zeros_below": 0, "zeros_before": 2, "zeros_behind": 1,
    }  # fmt: skip


def test_what_addresses_main_memory_takes_the_place_of_its_name() -> None:
    """Where they can, blocks of tiles stay in a cache."""
    op = conv2d(batch=1, in_channels=8, out_channels=8, height=8, width=8, kernel=3)
    (scratchpad,), (cached,) = (
        seeds_for(op, "winograd4", addressed=addressed) for addressed in (False, True)
    )
    together = ("group", "image_block", "block", "channel_group")
    assert (scratchpad.together, cached.together) == ((), together)
    assert [s.name for s in seeds_for(op, addressed=True)][-1] == "winograd6"
    with pytest.raises(ScheduleError) as caught:
        seeds_for(op, "winograd6")
    assert str(caught.value).startswith("conv2d has no algorithm 'winograd6'; choose one of ")


def test_blocks_divide_rows_of_tiles_and_channels() -> None:
    op = conv2d(batch=1, in_channels=8, out_channels=128, height=30, width=8, kernel=3)
    (found,) = seeds_for(op, "winograd4", addressed=True)
    sizes = found.blocks(parameters(op))
    assert {(s["block_rows"], s["blocks"]) for s in sizes} == {
        (7, 1), (4, 2), (3, 3), (2, 4), (1, 7),
    }  # fmt: skip
    assert {(s["group_channels"], s["channel_groups"]) for s in sizes} == {
        (128, 1), (64, 2), (32, 4),
    }  # fmt: skip


def test_blocks_of_several_images_hold_all_of_their_rows() -> None:
    op = conv2d(batch=6, in_channels=8, out_channels=32, height=14, width=14, kernel=3)
    (found,) = seeds_for(op, "winograd4", addressed=True)
    sizes = found.blocks(parameters(op))
    assert {(s["block_rows"], s["block_images"], s["image_blocks"]) for s in sizes} == {
        (3, 1, 6), (2, 1, 6), (1, 1, 6), (3, 2, 3), (3, 3, 2), (3, 6, 1),
    }  # fmt: skip


@pytest.mark.parametrize(("size", "offered"), [(2, True), (3, True), (4, False)])
def test_sums_over_all_pixels_are_for_results_of_no_more_pixels_than_taps(
    size: int, offered: bool
) -> None:
    height = size + 2
    op = conv2d(batch=2, in_channels=3, out_channels=4, height=height, width=height, kernel=3)
    assert ("whole_sums" in [s.name for s in seeds_for(op, whole=True)]) == offered
