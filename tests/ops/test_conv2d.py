"""Convolution: against the defining sum, shapes of known layers, refusals."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright.common.errors import ShapeError
from tilewright.ops import conv2d
from tilewright.ops.box import Box
from tilewright.ops.op import for_sums
from tilewright.ops.window import seen

LAYER = {
    "batch": 2, "in_channels": 4, "out_channels": 6, "height": 9, "width": 8, "kernel": 3,
}  # fmt: skip


def defining_sum(op, x, w):
    """Each output as the sum over its window, straight from the definition."""
    top, left, bottom, right = op.padding
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    result = np.zeros(op.out_shape)
    inputs, outputs = op.in_channels // op.groups, op.out_channels // op.groups
    for group, row, column in itertools.product(range(op.groups), *map(range, op.kernel)):
        rows = slice(row * op.dilation[0], None, op.stride[0])
        columns = slice(column * op.dilation[1], None, op.stride[1])
        channels = padded[:, group * inputs : (group + 1) * inputs]
        pixels = channels[:, :, rows, columns][:, :, : op.out_height, : op.out_width]
        o = slice(group * outputs, (group + 1) * outputs)
        result[:, o] += np.einsum("bihw,oi->bohw", pixels, w[o, :, row, column])
    return result


PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    batch=st.integers(1, 3), channels=PAIR, groups=st.integers(1, 3),
    image=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kernel=PAIR, stride=PAIR, dilation=PAIR,
    padding=st.tuples(*[st.integers(0, 3)] * 4),
)  # fmt: skip
def test_reference_is_the_defining_sum(
    batch, channels, groups, image, kernel, stride, dilation, padding
):
    for axis in (0, 1):
        span = (kernel[axis] - 1) * dilation[axis] + 1
        assume(span <= image[axis] + padding[axis] + padding[axis + 2])
    op = conv2d(
        batch=batch, in_channels=groups * channels[0], out_channels=groups * channels[1],
        height=image[0], width=image[1], kernel=kernel, stride=stride, padding=padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip
    generator = np.random.default_rng(sum(image))
    x, w = (generator.integers(-9, 9, shape).astype(float) for shape in op.input_shapes)
    assert np.array_equal(op.reference(x, w), defining_sum(op, x, w))


def test_many_images_are_lowered_in_parts_with_the_same_result():
    op = conv2d(**{**LAYER, "batch": 67})
    x, w = (np.arange(np.prod(shape)).reshape(shape) % 11 - 5.0 for shape in op.input_shapes)
    assert np.array_equal(op.reference(x, w), defining_sum(op, x, w))


@pytest.mark.parametrize(
    ("height", "kernel", "stride", "padding", "dilation", "out_height"),
    [
        (224, 3, 1, 1, 1, 224),
        (224, 7, 2, 3, 1, 112),
        (227, 11, 4, 0, 1, 55),
        (56, 1, 2, 0, 1, 28),
        (28, 3, 1, 2, 2, 28),
        (13, 3, 1, (0, 0, 1, 1), 1, 12),
    ],
)
def test_out_height_of_known_layers(height, kernel, stride, padding, dilation, out_height):
    op = conv2d(
        batch=1, in_channels=1, out_channels=1, height=height, width=height, kernel=kernel,
        stride=stride, padding=padding, dilation=dilation,
    )  # fmt: skip
    assert (op.out_height, op.out_width) == (out_height, out_height)


def test_flops_of_vgg_conv5():
    op = conv2d(
        batch=128, in_channels=512, out_channels=512, height=14, width=14, kernel=3, padding=1
    )
    assert op.flops == 2 * 128 * 512 * 14 * 14 * 512 * 9


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "conv2d 2x4x9x8 -> 6, 3x3 s1 p0"),
        ({"stride": (2, 1), "padding": (1, 0)}, "conv2d 2x4x9x8 -> 6, 3x3 s2,1 p1,0,1,0"),
        ({"dilation": 2, "groups": 2}, "conv2d 2x4x9x8 -> 6, 3x3 s1 p0 d2 g2"),
        ({"kernel": (1, 7)}, "conv2d 2x4x9x8 -> 6, 1x7 s1 p0"),
    ],
)
def test_text(changes, text):
    assert conv2d(**{**LAYER, **changes}).describe() == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "conv2d: batch must be a positive integer, found 0"),
        ({"width": -1}, "conv2d: width must be a positive integer, found -1"),
        ({"stride": 0}, "conv2d: stride height must be a positive integer, found 0"),
        ({"dilation": (1, 0)}, "conv2d: dilation width must be a positive integer, found 0"),
        ({"kernel": (3, 0)}, "conv2d: kernel width must be a positive integer, found 0"),
        ({"groups": 3}, "conv2d: groups = 3 does not divide in_channels = 4"),
        ({"groups": 4}, "conv2d: groups = 4 does not divide out_channels = 6"),
        ({"padding": -1}, "conv2d: padding must not be negative, found (-1, -1, -1, -1)"),
        (
            {"kernel": 11, "padding": (1, 0)},
            "conv2d: kernel width 11 is larger than the padded input width 8 = 8 + 0 + 0",
        ),
        (
            {"kernel": 4, "dilation": 3},
            "conv2d: kernel height 4 (dilated by 3: 10) is larger than the padded input "
            "height 9 = 9 + 0 + 0",
        ),
    ],
)
def test_refused_extents(changes, message):
    with pytest.raises(ShapeError) as refusal:
        conv2d(**{**LAYER, **changes})
    assert str(refusal.value) == message


@pytest.mark.parametrize("largest", [4, 5000])
def test_integers_have_the_same_sums_in_single_precision(largest: int) -> None:
    """Small ones are computed so; where a sum may need more digits, in double precision."""
    op = conv2d(
        batch=2, in_channels=5, out_channels=4, height=6, width=7, kernel=3, padding=1, dtype="f32"
    )
    generator = np.random.default_rng(1)
    x, w = (generator.integers(-largest, largest + 1, s).astype(float) for s in op.input_shapes)
    double = replace(op, dtype="f64")
    assert {x.dtype for x in for_sums(op, (x, w), 45)} == {
        np.dtype(np.float32 if largest == 4 else np.float64)
    }
    found = double.reference(x, w)
    assert found.dtype == np.float64
    assert np.array_equal(found, defining_sum(double, x, w))
    assert np.array_equal(op.reference(x, w), found.astype(np.float32))
    halves = for_sums(op, (x + 0.5, w), 45)
    assert {x.dtype for x in halves} == {np.dtype(np.float64)}


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 3), (3, 2)])
def test_outputs_see_the_pixels_of_their_taps(stride, dilation):
    for side, taps in itertools.product([(0, 1), (2, 5)], [(0, 3), (1, 2)]):
        pixels = [i * stride - 4 + t * dilation for i in range(*side) for t in range(*taps)]
        found = seen(side, taps, stride, before=4, dilation=dilation)
        assert found == (min(pixels), max(pixels) + 1)


@pytest.mark.parametrize(
    ("groups", "kinds"),
    [
        (1, ["rows", "batch", "out_channels", "rows_out_channels"]),
        (2, ["rows", "batch", "channel_groups"]),
        (4, ["rows", "batch", "channel_groups"]),
    ],
)
def test_divided_pieces_compute_each_element_of_the_result_once(groups, kinds):
    layer = {**LAYER, "batch": 1, "in_channels": 4, "out_channels": 8, "height": 10}
    op = conv2d(**layer, groups=groups)
    x, w = (np.arange(np.prod(shape)).reshape(shape) % 7 - 3.0 for shape in op.input_shapes)
    whole = op.reference(x, w)
    found = dict(op.divided(4))
    assert list(found) == kinds
    for pieces in found.values():
        total = np.zeros_like(whole)
        for own in pieces:
            total[own.result.slices] += own.op.reference(*own.take((x, w)))
        assert np.array_equal(total, whole)
    assert {own.result.sides[2] for own in found["rows"]} == {(i, i + 2) for i in (0, 2, 4, 6)}


@pytest.mark.parametrize(
    ("channels", "groups"), [((0, 12), 3), ((4, 12), 2), ((4, 8), 1), ((4, 6), 1), ((8, 12), 1)]
)
def test_a_part_has_the_groups_that_its_channels_are_of(channels, groups):
    op = conv2d(
        batch=1, in_channels=6, out_channels=12, height=4, width=4, kernel=1, groups=3
    )  # fmt: skip
    part = op.part(Box.whole(op.out_shape).along(1, channels))
    assert (part.groups, part.in_channels) == (groups, 2 * groups)
    assert part.out_channels == channels[1] - channels[0]
