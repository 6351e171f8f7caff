"""Dividing a convolution: over output rows (swDNN III-D), images or output channels.

A piece of the rows is a convolution with its own padding: only the first and the last strip keep
the border of the image; between strips the halo rows are read from the neighbours' part of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.ops.piece import EVERYTHING, Divided, Piece, intervals, pieces_along

if TYPE_CHECKING:
    from tilewright.ops.conv2d import Conv2d


def divide_conv2d(op: Conv2d, groups: int) -> Divided:
    """The pieces of every strategy that applies to `op`."""
    rows = tuple(_rows(op, part) for part in intervals(op.out_height, groups))
    found: Divided = [("batch", pieces_along(op, "batch", groups, (0, None), 0))]
    if all(piece is not None for piece in rows):
        found.insert(0, ("rows", tuple(piece for piece in rows if piece is not None)))
    if op.groups == 1:
        parts = pieces_along(op, "out_channels", groups, (None, 0), 1)
        found.append(("out_channels", parts))
    else:
        cut = intervals(op.groups, groups)
        found.append(("channel_groups", tuple(_channel_groups(op, part) for part in cut)))
    return found


def _rows(op: Conv2d, part: slice) -> Piece | None:
    """The output rows of `part`; None where they see nothing but padding."""
    top, left, _, right = op.padding
    span = (op.kernel[0] - 1) * op.dilation[0] + 1
    first = part.start * op.stride[0] - top
    end = (part.stop - 1) * op.stride[0] - top + span
    start, stop = max(0, first), min(op.height, end)
    if start >= stop:
        return None
    padding = (start - first, left, end - stop, right)
    piece = replace(op, height=stop - start, padding=padding)
    image = (EVERYTHING, EVERYTHING, slice(start, stop), EVERYTHING)
    return Piece(piece, (image, (EVERYTHING,) * 4), (EVERYTHING, EVERYTHING, part, EVERYTHING))


def _channel_groups(op: Conv2d, part: slice) -> Piece:
    """Whole channel groups: their input channels, their weights, their output channels."""
    count = part.stop - part.start
    inputs, outputs = op.in_channels // op.groups, op.out_channels // op.groups
    piece = replace(op, in_channels=count * inputs, out_channels=count * outputs, groups=count)
    read = slice(part.start * inputs, part.stop * inputs)
    written = slice(part.start * outputs, part.stop * outputs)
    return Piece(
        piece,
        ((EVERYTHING, read, EVERYTHING, EVERYTHING), (written, EVERYTHING, EVERYTHING, EVERYTHING)),
        (EVERYTHING, written, EVERYTHING, EVERYTHING),
    )
