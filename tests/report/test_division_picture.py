"""The picture of one layer of a divided network."""

import re

from tilewright.partition.layer_plans import LayerPlan, MovePlan, SharePlan
from tilewright.report.division_picture import layer_picture

SHAPE = (1, 4, 6, 8)
LEFT = ((0, 1), (0, 2), (0, 6), (0, 4))
RIGHT = ((0, 1), (0, 2), (0, 6), (4, 8))
BELOW = ((0, 1), (2, 4), (0, 6), (0, 8))
NOTHING = ((0, 0), (0, 0), (0, 0), (0, 0))
SHARES = tuple(SharePlan(core, keeps, keeps, None, {}, {}) for core, keeps in
               enumerate((LEFT, RIGHT, BELOW, NOTHING)))  # fmt: skip
HALO = MovePlan("x", 0, (1,), (1,), ((0, 1), (0, 2), (0, 6), (3, 4)), adds=False)
SUMS = MovePlan("y sums", 3, (1, 2), (2, 3), ((0, 1), (0, 2), (0, 3), (4, 8)), adds=True)
PLAN = LayerPlan("conv", "y", "products", SHARES, (HALO, SUMS))
PICTURE = layer_picture(PLAN, SHAPE, 4)


def test_each_part_of_the_channels_has_a_panel_with_its_cores():
    texts = re.findall(r">([^<>]+)</text>", PICTURE)
    assert texts == [
        "kept by cores, of 1x4x6x8",
        "channels 0-1", "0", "1", "channels 2-3", "2",
        "sent from row to column: 12 values of inputs in blue, 48 of sums in orange",
        "0", "0",
    ]  # fmt: skip


def test_the_darkest_square_is_the_pair_that_sends_most():
    shades = re.findall(r'fill="(#\w+)" fill-opacity="([\d.]+)"', PICTURE)
    assert shades == [("#1f5fa8", "0.83"), ("#c75a00", "1.00"), ("#c75a00", "1.00")]
