"""Cuts of a layer's dimensions."""

from itertools import pairwise

import numpy as np
import pytest

from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import conv2d
from tilewright.partition.compiled import _wrapped
from tilewright.partition.grids import (
    ROWS,
    Grids,
    along,
    channel_cuts,
    cut,
    equal_cuts,
    parts_in,
    undivided,
)
from tilewright.partition.layers import layers_of
from tilewright.partition.strategies import _divisor_cuts
from tilewright.partition.volumes import lifted, sizes


def layer(groups):
    op = conv2d(batch=1, in_channels=12, out_channels=24, height=4, width=4, kernel=3, padding=1,
                groups=groups)  # fmt: skip
    net = NetworkBuilder("one", "f64")
    x, w = net.input("x", op.input_shapes[0]), net.weight("w", op.input_shapes[1])
    (only,) = layers_of(net.build((net.apply(op, x, w, name="conv"),)))
    return only


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_channels_of_a_grouped_convolution_are_cut_inside_each_group_or_between_groups(groups):
    outputs, cores = 24 // groups, 12
    starts = range(0, 24, outputs)
    inside = [
        tuple((start + a, start + b) for start in starts for a, b in tiles)
        for tiles in equal_cuts(outputs, cores // groups)
        if len(tiles) > 1
    ]
    between = [tuple((a * outputs, b * outputs) for a, b in t) for t in equal_cuts(groups, cores)]
    assert channel_cuts(layer(groups), equal_cuts, cores) == [*inside, *between]
    assert ((0, 24),) in between


def test_channels_of_one_group_are_cut_as_any_extent():
    assert channel_cuts(layer(1), equal_cuts, 7) == equal_cuts(24, 7)


def test_cells_are_numbered_both_ways_where_these_differ():
    cuts = [[cut(4, 4), cut(4, 2)], [cut(6, 6), cut(6, 3)]]
    grids = Grids.products(2, cuts, 4, turned=True)
    described = [grids.grid(number).describe() for number in range(len(grids))]
    assert described == ["1x1", "1x2", "2x1", "2x2", "2x2*"]


def test_of_cells_that_overlap_each_owns_what_the_next_does_not_have():
    grid = Grids.of(layer(1), [along(undivided(layer(1)), ROWS, ((0, 3), (2, 4)))])
    parts = parts_in(grid)
    assert parts.kept[:, ROWS].tolist() == [[0, 3], [2, 4]]
    assert parts.owned[:, ROWS].tolist() == [[0, 2], [2, 4]]


def test_a_place_beyond_an_end_of_a_ring_is_at_the_other_end():
    assert [_wrapped.py_func(place, 4) for place in range(-1, 5)] == [3, 0, 1, 2, 3, 0]


@pytest.mark.parametrize(
    ("extent", "cores"), [(1, 12), (10, 12), (24, 12), (7, 7), (3, 4), (24, 1)]
)
def test_tiles_of_one_size_are_over_as_many_cores_as_divide_all_of_them(extent, cores):
    """From the whole on one core to one tile on each."""
    found = _divisor_cuts(extent, cores)
    assert found[-1] == ((0, extent),)
    expected = {-(-extent // n) for n in range(1, extent + 1) if n <= cores and cores % n == 0}
    assert [tiles[0][1] for tiles in found] == sorted(expected)
    for tiles in found:
        assert tiles[-1][1] == extent
        assert all(a == before for (_, before), (a, _) in pairwise(tiles))


def test_boxes_without_dimensions_are_vectors_of_one_element() -> None:
    """A scalar that three cores read is three values to move, not none."""
    scalars, boxes = np.zeros((3, 0, 2), np.int64), np.array([[[0, 2], [1, 4]]])
    assert lifted(scalars).tolist() == [[[0, 1]]] * 3
    assert sizes(lifted(scalars)).tolist() == [1, 1, 1]
    assert lifted(boxes) is boxes
