"""Nests as values: what their axes reach, and what their spaces leave in the scratchpad."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from tilewright.common.expr import evaluate
from tilewright.ops import Op, conv2d, gemm
from tilewright.ops.access import Access
from tilewright.ops.mapping import InMemory
from tilewright.ops.notation import operator_of
from tilewright.seeds.mapping import LETTERS, mapping
from tilewright.seeds.nest import Nest, Use
from tilewright.seeds.space import Seed, Space, bindings, seeds_for
from tilewright.seeds.steps import Reorder, Split, Stage

Pair = tuple[int, int]


def filled(
    kernel: Pair, out: Pair, stride: Pair = (1, 1), dilation: Pair = (1, 1), **more: int
) -> Op:
    """A convolution whose windows end where the images do."""
    extents = zip(out, stride, kernel, dilation, strict=True)
    height, width = ((o - 1) * s + (k - 1) * d + 1 for o, s, k, d in extents)
    channels = {"batch": 16, "in_channels": 8, "out_channels": 8, **more}
    images = {"height": height, "width": width}
    return conv2d(**channels, **images, kernel=kernel, stride=stride, dilation=dilation)


OPERATORS = [
    filled((3, 3), (60, 60)),
    filled((3, 3), (60, 60), batch=1, groups=8),
    filled((3, 2), (4, 4), (2, 3), (2, 1)),
    filled((3, 3), (4, 4), (2, 1), groups=4),
    filled((5, 7), (2, 3), (2, 1), (1, 3)),
    gemm(16, 24, 32),
]
MACHINES = {
    "with scratchpads": {},
    "addressed": {"addressed": True},
    "of whole depth": {"whole": True},
}


def uses_of(nest: Nest) -> Iterator[Use]:
    yield from nest.uses
    for beside in (nest.before, nest.after):
        if beside is not None:
            yield from (beside.output, beside.source)


@pytest.mark.parametrize("flags", MACHINES.values(), ids=MACHINES.keys())
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.describe())
def test_axes_reach_each_tensor_from_its_first_place_to_its_last(
    op: Op, flags: dict[str, bool]
) -> None:
    for seed in seeds_for(op, **flags):
        for values in bindings(op, seed):
            if 1 not in (values.get("blocks", 1), values.get("block_rows", 1)):
                continue  # the last block may be shorter
            for nest in (space.nest for space in seed.spaces):
                last = {a.name: evaluate(a.extent, values) - 1 for a in nest.axes}
                for use in uses_of(nest):
                    sizes = [evaluate(extent, values) for _, extent in use.tensor.dims]
                    ends = [
                        tuple(
                            evaluate(i, {**values, **at}) for at in (dict.fromkeys(last, 0), last)
                        )
                        for i in use.indices
                    ]
                    what = f"{use.tensor.name} in {nest.name} of {seed.name}"
                    assert ends == [(0, size - 1) for size in sizes], what


def alternatives(space: Space) -> Iterator[tuple[object, ...]]:
    return chain.from_iterable(space.choices)


def staged(seed: Seed, tensor: str) -> set[str]:
    """The loops outside which some schedule of a seed stages a tensor."""
    steps = chain.from_iterable(alternatives(seed.spaces[0]))
    return {s.at for s in steps if isinstance(s, Stage) and s.tensor == tensor}


@pytest.mark.parametrize("op", OPERATORS[:-1], ids=lambda op: op.describe())
def test_results_are_staged_outside_of_all_sums(op: Op) -> None:
    """They are complete before they leave, and are never fetched."""
    for seed in seeds_for(op):
        for space in seed.spaces:
            for steps in alternatives(space):
                orders = [s.loops for s in steps if isinstance(s, Reorder)]
                own = [s.at for s in steps if isinstance(s, Stage) and s.tensor == seed.result]
                for order, loop in ((o, x) for o in orders for x in own):
                    sums = [i for i, a in enumerate(order) if a in space.nest.reductions()]
                    assert order.index(loop) <= min(sums), (seed.name, order, loop)


@pytest.mark.parametrize("batch", [16, 128])
@pytest.mark.parametrize("channels", [32, 256])
def test_whole_kernels_are_fetched_at_once_for_few_channels_alone(
    batch: int, channels: int
) -> None:
    """Of many images under the first order of blocks; with few ones rows of pixels may share a
    column of the kernel, which is another order of its loops.
    """
    op = filled((3, 3), (6, 6), batch=batch, in_channels=channels)
    (space,) = next(s for s in seeds_for(op) if s.name == "implicit").spaces
    orders = [
        next(s.loops for s in steps if isinstance(s, Reorder))
        for steps in alternatives(space)
        if Stage("w", "kernel_row") in steps
    ]
    taps = [order[-3:] for order in orders]
    whole = [order for order in orders if order[-2:] == ("kernel_row", "kernel_col")]
    assert ("in_channel", "kernel_col", "kernel_row") in taps or batch == 128
    assert len({*whole}) == (0 if channels == 256 else 2 if batch == 16 else 1)


@pytest.mark.parametrize(("kernel", "fused"), [((1, 1), False), ((1, 2), True), ((2, 1), True)])
def test_columns_are_made_in_the_scratchpad_for_several_taps(kernel: Pair, fused: bool) -> None:
    names = [seed.name for seed in seeds_for(filled(kernel, (4, 4)))]
    assert ("explicit_fused" in names) is fused


def test_sums_by_element_cut_the_inner_axis_of_each_dimension() -> None:
    """Axes that share one with it are loops beside the tile, for which an operand is fetched at
    once: outside of all of them, or of the innermost.
    """
    op = operator_of("y[p,q,r,c] += x[r+p,c+q,u] * w[u,p,q]",
                     p=2, q=3, r=5, c=8, u=3, x=(6, 10, 3))  # fmt: skip
    (seed,) = seeds_for(op, "elementwise")
    (space,) = seed.spaces
    steps = chain.from_iterable(alternatives(space))
    assert [s.axis for s in steps if isinstance(s, Split)] == ["i2", "i3"]
    for outer, inner in (("x0", "x1"), ("x1", "x0")):
        assert (Stage(outer, "i0"), Stage(inner, "i1")) in alternatives(space)


def test_sums_by_element_cut_as_many_axes_as_a_call_has_dimensions() -> None:
    names = "abcdefghij"
    text = f"y[{','.join(names)}] += x[{','.join(names)},u] * w[u]"
    (seed,) = seeds_for(operator_of(text, **dict.fromkeys(names, 2), u=3), "elementwise")
    steps = chain.from_iterable(alternatives(seed.spaces[0]))
    cut = [s.axis for s in steps if isinstance(s, Split)]
    assert cut == [f"i{n}" for n in range(10)][-len(LETTERS) :]


@pytest.mark.parametrize(("algorithm", "size"), [("winograd2", 2), ("winograd4", 4)])
def test_blocks_of_tiles_cover_what_they_divide(algorithm: str, size: int) -> None:
    """From all rows of tiles down to a row each; several images together have all of their rows."""
    op = filled((3, 3), (112, 14), batch=6, out_channels=256)
    (seed,) = seeds_for(op, algorithm, addressed=True)
    every, rows = bindings(op, seed), 112 // size
    assert {1, rows} <= {own["block_rows"] for own in every}
    assert {32, 256} <= {own["group_channels"] for own in every}
    for own in every:
        assert (own["blocks"] - 1) * own["block_rows"] < rows <= own["blocks"] * own["block_rows"]
        assert own["group_channels"] * own["channel_groups"] == 256
        assert own["block_images"] * own["image_blocks"] == 6
        assert own["block_images"] == 1 or own["block_rows"] == rows


def test_an_operand_that_moves_within_blocks_alone_may_be_fetched_once() -> None:
    """Axis 0 counts blocks of axis 2, whose factors are the same in all of them."""
    places = Access((12, 5), (((0, 4), (2, 1)), ((1, 1),)), (0, 0))
    factors = Access((4,), (((2, 1),),), (0,))
    rows = Access((5,), (((1, 1),),), (0,))
    op = InMemory((3, 5, 4), places, (places, factors, rows), "x0 * x1 + x2")
    seed = mapping(op)
    assert [staged(seed, name) for name in ("x0", "x1", "x2")] == [set(), {"i0"}, set()]
