"""Pieces of a convolution: any region of its result, any part of its sums.

A piece is a convolution with its own padding: only what touches the border of the image keeps it;
elsewhere the halo is read from the neighbours' part of the image. Terms are divided over the input
channels of a group, the kernel's rows and its columns.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.ops.box import Box, Interval
from tilewright.ops.numerics import partial_types
from tilewright.ops.piece import Divided, intervals, piece, pieces_along
from tilewright.ops.window import clipped, seen

if TYPE_CHECKING:
    from tilewright.ops.conv2d import Conv2d


def computable(op: Conv2d, result: Box, terms: Box | None) -> Box:
    """`result`, grown to whole channel groups where it lies in several, and to pixels that see the
    image where it lies in the padding.
    """
    channels = _grown_channels(op, result.sides[1])
    taps = _terms(op, terms).sides[1:]
    rows, columns = (_grown_pixels(op, axis, result.sides[2 + axis], taps[axis]) for axis in (0, 1))
    return Box.of(result.sides[0], channels, rows, columns)


def needed(op: Conv2d, result: Box, terms: Box | None) -> tuple[Box, ...]:
    """Regions of the images, without padding, and of the weights."""
    batch, out_channels = result.sides[:2]
    channels, *taps = _terms(op, terms).sides
    inputs, outputs = op.in_channels // op.groups, op.out_channels // op.groups
    first, last = out_channels[0] // outputs, (out_channels[1] - 1) // outputs
    read = (first * inputs + channels[0], last * inputs + channels[1])
    image = [
        clipped(_seen(op, axis, result.sides[2 + axis], taps[axis]), _image(op)[axis])
        for axis in (0, 1)
    ]
    return Box.of(batch, read, *image), Box.of(out_channels, channels, *taps)


def part(op: Conv2d, result: Box, terms: Box | None) -> Conv2d:
    """The convolution that computes a computable `result` from its needed operands."""
    images, weights = needed(op, result, terms)
    (top, bottom), (left, right) = (_padding(op, axis, result, terms) for axis in (0, 1))
    batch, in_channels, height, width = images.shape
    return replace(
        op,
        batch=batch,
        in_channels=in_channels,
        out_channels=weights.shape[0],
        height=height,
        width=width,
        kernel=(weights.shape[2], weights.shape[3]),
        padding=(top, left, bottom, right),
        groups=max(1, weights.shape[0] * op.groups // op.out_channels),
        dtype=op.dtype if terms in (None, Box.whole(op.terms)) else partial_types(op.numerics),
    )


def divide_conv2d(op: Conv2d, groups: int) -> Divided:
    """Equal pieces over rows (swDNN III-D), images, output channels or channel groups; over rows
    and output channels at once where there are fewer images than groups.
    """
    found: Divided = [("batch", pieces_along(op, 0, groups))]
    whole = Box.whole(op.out_shape)
    rows = [whole.along(2, part) for part in intervals(op.out_height, groups)]
    if all(op.computable(strip) == strip for strip in rows):
        found.insert(0, ("rows", tuple(piece(op, strip) for strip in rows)))
    if op.groups == 1:
        found.append(("out_channels", pieces_along(op, 1, groups)))
        found += _rows_and_channels(op, groups) if op.batch < groups else []
    else:
        outputs = op.out_channels // op.groups
        cut = [(a * outputs, b * outputs) for a, b in intervals(op.groups, groups)]
        found.append(("channel_groups", tuple(piece(op, whole.along(1, part)) for part in cut)))
    return found


def _rows_and_channels(op: Conv2d, groups: int) -> Divided:
    """A grid of both, as nearly square as there is one: each group reads some rows and has some of
    the weights.
    """
    parts = max(n for n in range(1, math.isqrt(groups) + 1) if groups % n == 0)
    whole = Box.whole(op.out_shape)
    strips = [whole.along(2, part) for part in intervals(op.out_height, parts)]
    channels = intervals(op.out_channels, groups // parts)
    if len(strips) == 1 or len(channels) == 1:
        return []
    if any(op.computable(strip) != strip for strip in strips):
        return []
    cells = [strip.along(1, part) for strip in strips for part in channels]
    return [("rows_out_channels", tuple(piece(op, cell) for cell in cells))]


def _terms(op: Conv2d, terms: Box | None) -> Box:
    return Box.whole((op.in_channels // op.groups, *op.kernel)) if terms is None else terms


def _image(op: Conv2d) -> tuple[int, int]:
    return op.height, op.width


def _grown_channels(op: Conv2d, side: Interval) -> Interval:
    outputs = op.out_channels // op.groups
    first, last = side[0] // outputs, (side[1] - 1) // outputs
    return side if first == last else (first * outputs, (last + 1) * outputs)


def _grown_pixels(op: Conv2d, axis: int, side: Interval, taps: Interval) -> Interval:
    """The pixels with the nearest that see the image, where none of them does."""
    first, end = _seen(op, axis, side, taps)
    before, stride, image = op.padding[axis], op.stride[axis], _image(op)[axis]
    start, stop = side
    if end <= 0:
        stop = 1 - ((taps[1] - 1) * op.dilation[axis] - before) // stride
    if first >= image:
        start = (image - 1 + before - taps[0] * op.dilation[axis]) // stride
    whole = (0, op.out_shape[2 + axis])
    return (start, stop) if start >= 0 and stop <= whole[1] else whole


def _padding(op: Conv2d, axis: int, result: Box, terms: Box | None) -> Interval:
    """Padding before and after the part of the image that is read."""
    first, end = _seen(op, axis, result.sides[2 + axis], _terms(op, terms).sides[1 + axis])
    start, stop = clipped((first, end), _image(op)[axis])
    return start - first, end - stop


def _seen(op: Conv2d, axis: int, side: Interval, taps: Interval) -> Interval:
    """The input interval of some outputs; the padded image where they read nothing but padding."""
    before, image = op.padding[axis], _image(op)[axis]
    found = seen(side, taps, op.stride[axis], before, op.dilation[axis])
    if side == (0, op.out_shape[2 + axis]) and not (found[0] < image and found[1] > 0):
        return -before, image + op.padding[axis + 2]
    return found
