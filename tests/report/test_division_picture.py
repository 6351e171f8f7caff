"""The picture of one layer of a divided network."""

import re

import pytest
from msgspec.structs import replace

from tilewright.partition.divided import LayerPlan, MovePlan, PartPlan
from tilewright.report.division import _PALEST, _shade, layer_picture

SHAPE = (1, 4, 6, 8)
LEFT = ((0, 1), (0, 2), (0, 6), (0, 4))
RIGHT = ((0, 1), (0, 2), (0, 6), (4, 8))
BELOW = ((0, 1), (2, 4), (0, 6), (0, 8))
NOTHING = ((0, 0), (0, 0), (0, 0), (0, 0))
PARTS = tuple(PartPlan(core, keeps, keeps, None, {}, {}) for core, keeps in
               enumerate((LEFT, RIGHT, BELOW, NOTHING)))  # fmt: skip
HALO = MovePlan("x", 0, (1,), (1,), ((0, 1), (0, 2), (0, 6), (3, 4)), adds=False)
SUMS = MovePlan("y sums", 3, (1, 2), (2, 3), ((0, 1), (0, 2), (0, 3), (4, 8)), adds=True)
PLAN = LayerPlan("conv", "y", "products", PARTS, (HALO, SUMS))
HEADING = "conv on toy: channels x columns, grid 1x2x1x2 (products)"
PICTURE = layer_picture(PLAN, SHAPE, 4, HEADING, 0)


def test_each_part_of_the_channels_has_a_panel_with_its_cores():
    texts = re.findall(r">([^<>]+)</text>", PICTURE)
    assert texts == [
        HEADING,
        "kept by cores, of 1x4x6x8",
        "channels 0-1", "0", "1", "channels 2-3", "2",
        "sent from row to column: 12 values of inputs in blue, 48 of sums in orange",
        "0", "0",
        "1", "10", "24",
    ]  # fmt: skip


def test_the_darkest_square_is_the_pair_that_sends_most():
    shades = re.findall(r'fill="(#\w+)" fill-opacity="([\d.]+)"', PICTURE)
    pairs, scale = shades[:3], shades[3:]
    assert pairs == [("#1f5fa8", "0.83"), ("#c75a00", "1.00"), ("#c75a00", "1.00")]
    assert [shade for _, shade in scale] == ["0.33", "0.33", "0.78", "0.78", "1.00", "1.00"]


@pytest.mark.parametrize("most", [1, 9, 100, 12345])
def test_shades_go_up_with_orders_of_magnitude_from_the_palest_to_full(most):
    shades = [_shade(values, most) for values in range(most + 1)]
    assert (shades[0], shades[-1]) == (_PALEST, pytest.approx(1))
    assert shades == sorted(set(shades))
    middle = _shade((most + 1) ** 2 - 1, (most + 1) ** 4 - 1)
    assert middle == pytest.approx((_PALEST + 1) / 2)


def squares(picture, color):
    number = r'"([\d.]+)"'
    found = re.findall(rf"<rect x={number} y={number} width={number} [^>]*{color}", picture)
    return [(float(x), float(width)) for x, _, width in found]


def test_where_inputs_and_sums_go_the_same_way_each_has_half_of_the_square():
    both = replace(SUMS, source=0, targets=(1,), rounds=(1,))
    picture = layer_picture(replace(PLAN, moves=(HALO, both)), SHAPE, 4, HEADING, 0)
    (blue, width), (orange, other) = (squares(picture, c)[0] for c in ("#1f5fa8", "#c75a00"))
    assert width == other == pytest.approx((480 - 14) / 4 / 2, abs=0.1)
    assert orange == pytest.approx(blue + width, abs=0.2)


def test_inputs_from_main_memory_are_not_nothing():
    picture = layer_picture(replace(PLAN, moves=()), SHAPE, 4, HEADING, 96)
    assert (
        "no core sends anything to another; 96 values of the network&#x27;s inputs from main memory"
        in picture
    )


def test_titles_of_many_panels_are_short_and_can_be_read():
    parts = tuple(
        PartPlan(n % 4, ((n, n + 1), (0, 4), (0, 6), (0, 8)), LEFT, None, {}, {})
        for n in range(120)
    )
    picture = layer_picture(replace(PLAN, parts=parts, moves=()), (120, *SHAPE[1:]), 4, "x", 0)
    assert "kept by cores, of 120x4x6x8 (i images, c channels)" in picture
    sizes = re.findall(r'font-size:([\d.]+)px">i \d+, c 0-3<', picture)
    assert len(sizes) == 119  # that of image 0 says only the channels
    assert min(map(float, sizes)) >= 5


def test_a_matrix_has_one_panel():
    halves = (((0, 1), (0, 500)), ((0, 1), (500, 1000)))
    parts = tuple(PartPlan(n, keeps, keeps, None, {}, {}) for n, keeps in enumerate(halves))
    picture = layer_picture(replace(PLAN, parts=parts, moves=()), (1, 1000), 2, "fc", 0)
    texts = re.findall(r">([^<>]+)</text>", picture)
    assert texts[:4] == ["fc", "kept by cores, of 1x1000", "0", "1"]
    assert [width for _, width in squares(picture, "#")[:2]] == [236, 236]


def test_drawings_fill_the_picture_up_to_its_margins_and_lie_below_each_other():
    """The two halves have a margin on all sides; the scale stands below the matrix."""
    picture = layer_picture(PLAN, SHAPE, 4, HEADING, 0)
    number = r'"(-?[\d.]+)"'
    width, height = (int(n) for n in re.search(r'viewBox="0 0 (\d+) (\d+)"', picture).groups())
    found = re.findall(rf"<rect x={number} y={number} width={number} height={number}", picture)
    boxes = [tuple(map(float, box)) for box in found]
    left, right = min(x for x, *_ in boxes), max(x + w for x, _, w, _ in boxes)
    assert (left, width - right) == pytest.approx((40, 40 + 14), abs=1)
    matrix = next(box for box in boxes if box[2] == box[3] == pytest.approx(480 - 14, abs=0.2))
    scale = [box for box in boxes if box[2:] == (14, 12)]
    assert len(scale) == 6
    assert min(y for _, y, *_ in scale) == pytest.approx(matrix[1] + matrix[3] + 14, abs=0.2)
    lowest = max(y + h for _, y, _, h in boxes)
    assert height - 20 - lowest == pytest.approx(20, abs=1)


def test_every_eighth_core_of_many_is_numbered():
    picture = layer_picture(replace(PLAN, moves=()), SHAPE, 20, HEADING, 0)
    behind = picture.partition("no core sends anything to another")[2]
    assert re.findall(r">(\d+)</text>", behind) == ["0", "0", "8", "8", "16", "16"]


def test_the_picture_of_a_small_layer(golden):
    """Coordinates and sizes of all that is drawn."""
    golden("division.svg", PICTURE.replace("><", ">\n<"))


def test_numbers_of_cores_fit_into_their_squares():
    """Half as wide and nearly as high as the square: below a readable size there is none."""
    parts = tuple(
        PartPlan(core, ((0, 1), (0, 4), (at, stop), (0, 8)), NOTHING, None, {}, {})
        for core, (at, stop) in enumerate(((0, 1), (1, 2), (2, 10), (10, 90)))
    )
    picture = layer_picture(replace(PLAN, parts=parts, moves=()), (1, 4, 90, 8), 4, "x", 0)
    number = r'"([\d.]+)"'
    squares = re.findall(
        rf"<rect [^>]*width={number} height={number} fill=[^>]*/>(<text[^>]*>)?", picture
    )
    drawn = [(float(w), float(h), text) for w, h, text in squares[:4]]
    assert [bool(text) for *_, text in drawn] == [False, False, True, True]


@pytest.mark.parametrize("shape", [(1, 1, 6, 8), (6, 8)], ids=["image", "matrix"])
def test_the_region_of_a_core_lies_in_the_panel_as_it_does_in_the_result(shape):
    """With the number of the core in its middle; one element is as large everywhere."""
    regions = [((0, 2), (0, 8)), ((2, 6), (0, 3)), ((2, 6), (3, 8))]
    around = tuple((0, 1) for _ in shape[:-2])
    parts = tuple(PartPlan(n, (*around, *r), LEFT, None, {}, {}) for n, r in enumerate(regions))
    picture = layer_picture(replace(PLAN, parts=parts, moves=()), shape, 3, HEADING, 0)
    panel = picture.partition("no core sends")[0]
    number = r'"(-?[\d.]+)"'
    found = re.findall(rf"<rect x={number} y={number} width={number} height={number} fill", panel)
    boxes = [tuple(map(float, box)) for box in found]
    left, top, wide, tall = boxes[0]
    step, tall = wide / 8, tall / 2  # the first region has all columns and two rows
    for (x, y, w, h), (rows, columns) in zip(boxes, regions, strict=True):
        assert ((x - left) / step, w / step) == pytest.approx(
            (columns[0], columns[1] - columns[0]), abs=0.02
        )
        assert ((y - top) / tall, h / tall) == pytest.approx((rows[0], rows[1] - rows[0]), abs=0.02)
    marks = re.findall(rf"<text x={number} y={number}[^>]*>(\d)</text>", panel)
    middles = [(x + w / 2, y + h / 2) for x, y, w, h in boxes]
    for core, ((x, y, name), middle) in enumerate(zip(marks, middles, strict=True)):
        assert (float(x), float(y), name) == (
            pytest.approx(middle[0], abs=0.2), pytest.approx(middle[1], abs=5), str(core)
        )  # fmt: skip
