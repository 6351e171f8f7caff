"""Blocks of Winograd's algorithm: which numbers of rows, images and channels are tried."""

from math import prod

import pytest

from tilewright.common.expr import evaluate
from tilewright.ops import conv2d
from tilewright.seeds.space import interface, seeds_for


def blocks(size, **values):
    op = conv2d(
        batch=1, in_channels=8, out_channels=8, height=9, width=9, kernel=3, padding=1, dtype="f32"
    )
    (seed,) = seeds_for(op, f"winograd{size}", addressed=True)
    shape = {"out_rows": 32, "out_cols": 32, "batch": 1, "in_channels": 64, "out_channels": 32}
    return seed.blocks(shape | values)


def distinct(found, *names):
    return list(dict.fromkeys(tuple(block[name] for name in names) for block in found))


def test_rows_of_tiles_are_cut_into_equal_blocks():
    found = distinct(blocks(4, out_rows=55), "block_rows", "blocks")
    assert found == [(14, 1), (7, 2), (5, 3), (4, 4), (3, 5), (2, 7), (1, 14)]
    assert distinct(blocks(2, out_rows=5), "block_rows", "blocks") == [(3, 1), (2, 2), (1, 3)]


def test_images_are_computed_together_as_long_as_their_tiles_are_few():
    """64 tiles an image, of 256 that share one read of the filters."""
    found = distinct(blocks(4, batch=8), "block_images", "image_blocks")
    assert found == [(1, 8), (2, 4), (4, 2)]
    assert distinct(blocks(4, batch=8, out_cols=33), "block_images") == [(1,), (2,)]
    assert {b["block_rows"] for b in blocks(4, batch=8) if b["block_images"] > 1} == {8}


@pytest.mark.parametrize(
    ("channels", "groups"),
    [(32, [1]), (64, [1, 2]), (96, [1]), (192, [1, 2]), (512, [1, 2, 4, 8, 16])],
)
def test_channels_are_cut_into_groups_of_32_at_least(channels, groups):
    found = distinct(blocks(4, out_channels=channels), "group_channels", "channel_groups")
    assert found == [(channels // count, count) for count in groups]


@pytest.mark.parametrize(("channels", "pitch"), [(128, 128), (256, 272), (520, 520), (1024, 1040)])
def test_rows_that_would_meet_in_few_sets_of_a_cache_are_a_line_further_apart(channels, pitch):
    assert distinct(blocks(4, in_channels=channels), "in_pitch") == [(pitch,)]


@pytest.mark.parametrize(
    ("cols", "channels", "pitch"), [(224, 64, 57), (112, 128, 29), (56, 64, 14), (208, 32, 52)]
)
def test_points_of_a_row_that_would_meet_in_few_sets_are_a_tile_further_apart(
    cols, channels, pitch
):
    """A spare tile is only for blocks of one row: behind one of several, rows were no matrix."""
    found = blocks(4, in_channels=channels, out_cols=cols)
    assert {b["tile_pitch"] for b in found if b["block_rows"] == 1} == {pitch}
    assert {b["tile_pitch"] for b in found if b["block_rows"] > 1} <= {cols // 4}


@pytest.mark.parametrize(
    ("size", "height", "width", "each"),
    [(4, 16, 16, 24 * 24), (4, 14, 14, 23 * 23), (4, 16, 13, 24 * 23), (2, 7, 7, 15 * 15),
     (6, 14, 8, 23 * 15), (4, 3, 5, 6 * 11), (4, 4, 3, 6 * 6)],
)  # fmt: skip
def test_tiles_that_the_edge_cuts_have_no_product_at_infinity(size, height, width, each):
    """Multiplications for each pair of channels, with all rows of tiles in one block."""
    op = conv2d(
        batch=3, in_channels=8, out_channels=32, height=height, width=width, kernel=3, padding=1,
        dtype="f32",
    )  # fmt: skip
    (seed,) = seeds_for(op, f"winograd{size}", addressed=True)
    values = interface(op.kind).parameters(op)
    nests = [s.nest for s in seed.spaces if s.nest.primitive.name == "gemm"]
    for own in seed.blocks(values):
        if own["blocks"] == 1:
            extents = [[evaluate(a.extent, values | own) for a in nest.axes] for nest in nests]
            assert sum(map(prod, extents)) == each * 3 * 8 * 32


@pytest.mark.parametrize("height", range(1, 34, 4))
def test_tiles_of_five_rows_are_for_images_in_which_they_save_a_fifth_of_the_products(height):
    for width in range(1, 34):
        op = conv2d(batch=1, in_channels=8, out_channels=8, height=height, width=width, kernel=3,
                    padding=1, dtype="f32")  # fmt: skip
        found = {seed.name for seed in seeds_for(op, addressed=True)}
        five, four = (
            len(range(0, height, size)) * len(range(0, width, size)) * (size + 2) ** 2
            for size in (5, 4)
        )
        assert ("winograd5" in found) == (five <= 0.8 * four)
        assert {"winograd4", "winograd6"} <= found
