"""The integers of a structure: which tiles, granules and copies are tried, and their limits."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nests import PRODUCT, WINDOWS
from tilewright.machine import load_machine
from tilewright.ops import conv2d
from tilewright.passes.lowering import staging
from tilewright.schedule.factors import (
    FactorGrid,
    Granularity,
    SplitAxis,
    _copies,
    balanced_tiles,
    blocks_of,
    divisors,
    factor_grid,
    granule_of,
)
from tilewright.schedule.structures import Structure, legal, structures
from tilewright.seeds.space import FactorLimits, Space, parameters, seeds_for
from tilewright.seeds.steps import parse_schedule

SW26010 = Granularity(rows=8, columns=8, vector=16, scalar=4)
"""The mesh of a core group and the primitive's block: four vectors of four by four scalars."""

LIMITS = FactorLimits()

SPREAD = """\
split(row, row_tile)
split(col, col_tile)
split(depth, depth_tile)
spread(row, rows)
spread(col, columns)
spread(depth, both)
"""


def product(text: str = "vectorize(n)", limits: FactorLimits = LIMITS, *doubled: str) -> Structure:
    space = Space(PRODUCT, doubled=doubled, limits=limits)
    return legal(space, parse_schedule(SPREAD + text).steps, "f64", staging)


def grid(structure: Structure, blocks: Granularity = SW26010, **extents: int) -> FactorGrid:
    return factor_grid(structure, {"m": 512, "n": 512, "k": 512, **extents}, blocks)


def rows(found: FactorGrid, *names: str) -> list[tuple[int, ...]]:
    """The combinations of tile factors, one tuple each."""
    return [
        tuple(int(v) for v in row) for row in zip(*(found.tiles[n] for n in names), strict=True)
    ]


def test_the_grid_of_a_matrix_product() -> None:
    """Multiples of 32 rows (8 x 4), 128 columns (8 x 16, vectorised), 8 of the depth."""
    found = grid(product(limits=FactorLimits(largest=256, most=2)), m=300, n=384, k=40)
    assert rows(found, "row_granule", "col_granule", "depth_granule") == [(32, 128, 8)] * 8
    assert rows(found, "row_tile", "col_tile", "depth_tile") == [
        (160, 256, 40), (160, 256, 24), (160, 128, 40), (160, 128, 24),
        (96, 256, 40), (96, 256, 24), (96, 128, 40), (96, 128, 24),
    ]  # fmt: skip
    assert found.tile_count == 8


def test_the_block_is_the_family_s_or_one_vector_by_one_element_or_none() -> None:
    group = load_machine("sw26010_cg")
    assert blocks_of(group, "f64") == SW26010
    plain = msgspec.structs.replace(group, target="")
    assert blocks_of(plain, "f64") == replace(SW26010, vector=4, scalar=1)
    any_extent = blocks_of(load_machine("dla-al"), "i16")
    assert (any_extent.vector, any_extent.scalar, any_extent.lanes) == (1, 1, 1)


def test_blocks_that_need_not_be_full_have_tiles_within_the_extents_and_no_granules() -> None:
    found = grid(product(), replace(SW26010, partial=True, rows=1, columns=1), m=30, n=77, k=5)
    assert {*found.tiles} == {"row_tile", "col_tile", "depth_tile"}
    for name, extent in (("row_tile", 30), ("col_tile", 77), ("depth_tile", 5)):
        assert found.tiles[name].max() == extent


def test_vectorising_moves_the_larger_block() -> None:
    tall = product("vectorize(m)\nlayout(c, cols, rows)\nlayout(a, depth, rows)")
    found = grid(tall)
    assert rows(found, "row_granule", "col_granule", "depth_granule")[0] == (128, 32, 8)


def test_an_operand_that_is_packed_is_read_by_vectors_along_the_depth() -> None:
    """B with its columns outside has no contiguous n: it is packed, four of the depth at a time."""
    found = grid(product("vectorize(n)\nlayout(b, cols, depth)"))
    assert rows(found, "depth_granule")[0] == (32,)


def test_an_extent_below_the_granule_has_one_tile() -> None:
    found = grid(product(), m=1, n=1, k=1)
    assert rows(found, "row_tile", "col_tile", "depth_tile") == [(32, 128, 8)]


def test_what_is_not_spread_is_divided_without_rest() -> None:
    text = "split(row, row_tile)\nsplit(col, col_tile)\nspread(col, rows)"
    structure = legal(
        Space(WINDOWS, limits=FactorLimits(most=3)), parse_schedule(text).steps, "f64", staging
    )
    found = factor_grid(structure, {"m": 28, "n": 20}, SW26010)
    assert sorted(set(rows(found, "row_tile"))) == [(1,), (7,), (28,)]
    assert sorted(set(rows(found, "col_tile", "col_granule"))) == [(8, 8), (16, 8), (24, 8)]


def test_a_skewed_axis_may_have_a_shorter_last_tile() -> None:
    """13 output columns in one, two, three, four, six, eight and 16 blocks."""
    found = swdnn_grid("swdnn_batch", 128, 13)
    assert sorted({tile for (tile,) in rows(found, "out_col_tile")}) == [1, 2, 3, 4, 5, 7, 13]
    assert set(rows(found, "image_granule")) == {(128,)}


def test_what_every_core_pads_counts_in_the_granule_of_what_is_spread() -> None:
    """A column of four images in a core is a vector: four columns fill the register block."""
    found = swdnn_grid("swdnn_image", 32, 13)
    assert set(rows(found, "out_col_granule", "image_block_granule")) == {(4, 8)}
    assert sorted({tile for (tile,) in rows(found, "out_col_tile")}) == [4, 8, 16]


def test_rows_that_a_core_walks_through_need_no_whole_blocks() -> None:
    """13 columns of an image are padded to whole blocks of pixels, 16 with vectors of pixels and 4
    without; a row of them in each core is enough.
    """
    op = conv2d(batch=1, in_channels=8, out_channels=8, height=20, width=15, kernel=3)
    (seed,) = seeds_for(op, "implicit_rows")
    found = structures(seed, seed.spaces[0], "f64", staging)
    for vector, block in (("n", 16), ("m", 4)):
        walked = (s for s in found if s.decisions.walks and s.decisions.vector == vector)
        tiles = factor_grid(next(walked), parameters(op), SW26010)
        assert set(rows(tiles, "out_row_granule", "out_col_granule")) == {(8, block)}
        assert sorted(set(rows(tiles, "out_row_tile"))) == [(8,), (16,), (24,)]


def swdnn_grid(algorithm: str, batch: int, cols: int) -> FactorGrid:
    op = conv2d(batch=batch, in_channels=8, out_channels=8, height=3, width=cols + 2, kernel=3)
    (seed,) = seeds_for(op, algorithm)
    found = structures(seed, seed.spaces[0], "f64", staging)
    return factor_grid(found[0], parameters(op), SW26010)


def test_what_stays_in_a_scratchpad_is_not_packed() -> None:
    """Each row and each column of cores has a part of the depth, by vectors only of what packs."""
    assert {*swdnn_grid("explicit_fused", 8, 8).tiles["in_channel_granule"].tolist()} == {8}


def test_copies_are_tried_for_the_named_tensors() -> None:
    found = grid(product("vectorize(n)", FactorLimits(most=1), "a", "b"))
    copies = {name: column.T.tolist() for name, column in found.copies.items()}
    assert copies == {
        "c_copies": [[1] * 4], "a_copies": [[1, 1, 2, 2]], "b_copies": [[1, 2, 1, 2]]
    }  # fmt: skip
    assert found.chosen(2, 0) == {
        "row_tile": 512, "col_tile": 512, "depth_tile": 512,
        "row_granule": 32, "col_granule": 128, "depth_granule": 8,
        "c_copies": 1, "a_copies": 2, "b_copies": 1,
    }  # fmt: skip


def test_a_structure_without_buffers_has_one_number_of_copies() -> None:
    found = FactorGrid({"row_tile": np.array([8, 4])}, {})
    assert (found.tile_count, found.copy_count) == (2, 1)


@pytest.mark.parametrize(("over", "cores"), [("", 1), ("rows", 4), ("columns", 6), ("cores", 24)])
def test_each_core_has_a_part_of_what_is_cut_over_it(over: str, cores: int) -> None:
    """Without vectors a part may be a single iteration: as many as there are cores on the way."""
    mesh = Granularity(rows=4, columns=6, vector=16, scalar=4)
    own = SplitAxis(
        "row", "row_tile", "", over, 99,
        beside=1, padded=False, uneven=False, whole=False, even=False,
    )  # fmt: skip
    assert granule_of(own, [own], {}, "", mesh, packs=False) == cores


@pytest.mark.parametrize(("order", "most"), [("row, col, depth", 2), ("depth, row, col", 1)])
def test_a_result_that_is_fetched_again_has_one_copy(order: str, most: int) -> None:
    """Where the sum runs outside, put and get of the same tile would race."""
    found = grid(product(f"vectorize(n)\nreorder({order})", LIMITS, "c"))
    assert found.copies["c_copies"].max() == most


def test_tiles_whose_vectors_would_not_be_aligned_are_left_out() -> None:
    """Rows of images that are staged for three kernel columns: 4 n + 2 columns are no vectors."""
    op = conv2d(batch=1, in_channels=8, out_channels=8, height=4, width=66, kernel=3)
    (seed,) = seeds_for(op, "implicit")
    (space,) = seed.spaces
    text = """\
layout(x, group, rows, channels, cols, batch)
layout(y, group, rows, channels, cols, batch)
split(out_channel, out_channel_tile)
split(image, image_tile)
split(in_channel, in_channel_tile)
split(out_col, out_col_tile)
fuse(out_col, n)
spread(out_channel, rows)
spread(in_channel, both)
spread(out_col, columns)
vectorize(n)
"""
    tap_by_tap = legal(space, parse_schedule(text).steps, "f64", staging)
    assert factor_grid(tap_by_tap, parameters(op), SW26010).tile_count > 0
    by_row = legal(space, parse_schedule(text + "stage(x, kernel_col)").steps, "f64", staging)
    assert factor_grid(by_row, parameters(op), SW26010).tile_count == 0


extents = st.integers(1, 2000)
granules = st.sampled_from([1, 4, 8, 32, 48, 128])
limits = st.builds(FactorLimits, st.integers(1, 1024), st.integers(1, 12))


@given(extents, granules, limits)
def test_balanced_tiles(extent: int, granule: int, limit: FactorLimits) -> None:
    tiles = balanced_tiles(extent, granule, limit)
    assert 1 <= len(tiles) <= limit.most
    assert list(tiles) == sorted(set(tiles), reverse=True)
    for tile in tiles:
        assert tile % granule == 0
        assert tile <= max(granule, -(-limit.largest // granule) * granule)
        count = -(-extent // tile)
        smaller = tile - granule
        assert smaller == 0 or -(-extent // smaller) > count, "the smallest of so many tiles"


@given(st.integers(1, 10_000) | st.integers(1, 2**31), st.integers(1, 8))
def test_divisors(extent: int, most: int) -> None:
    found = divisors(extent, most)
    assert 1 <= len(found) <= most
    assert found[0] == extent
    assert list(found) == sorted(set(found), reverse=True)
    assert all(extent % d == 0 for d in found)
    assert most == 1 or found[-1] == 1
    if most == 8 and extent <= 20:
        assert len(found) == sum(extent % d == 0 for d in range(1, extent + 1))


blocks = st.builds(
    Granularity,
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 3, 8]),
    st.just(16),
    st.just(4),
)


@given(blocks, st.sampled_from(["m", "n"]), st.integers(1, 40), st.booleans())
def test_granules_give_each_core_whole_register_blocks(
    mesh: Granularity, vector: str, others: int, packs: bool
) -> None:
    """`others` columns of each pixel are inside the product with the spread images."""
    plain = {"beside": 1, "padded": False, "uneven": False, "whole": False, "even": False}
    image = SplitAxis("image", "image_tile", "n", "columns", 99, **plain)
    channel = SplitAxis("channel", "channel_tile", "k", "both", 99, **plain)
    axes = (image, SplitAxis("col", "col_tile", "n", "", 99, **plain), channel)
    images, channels = (
        granule_of(a, axes, {"col": others}, vector, mesh, packs) for a in (image, channel)
    )
    assert images % mesh.columns == 0
    per_core = images // mesh.columns * others
    block = mesh.vector if vector == "n" else mesh.scalar
    assert per_core % block == 0
    assert channels % mesh.rows == channels % mesh.columns == 0
    assert channels // max(mesh.rows, mesh.columns) >= (mesh.lanes if packs else 1)


def test_copies_are_one_or_two_of_what_is_doubled_and_one_of_the_rest() -> None:
    found = _copies(("a", "b", "c"), ("a", "c"))
    assert {name: column.tolist() for name, column in found.items()} == {
        "a_copies": [[1], [1], [2], [2]],
        "b_copies": [[1], [1], [1], [1]],
        "c_copies": [[1], [2], [1], [2]],
    }
