"""Rows of images in the vector scratchpad, as needed by windows over a group of output rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.targets.cambricon.dla.blocks.steps import Load
from tilewright.targets.cambricon.dla.builder import ScratchpadBuffer
from tilewright.targets.cambricon.dla.declarations import Data


@dataclass(frozen=True)
class Window:
    """Rows and columns of a window, its steps, and the padding around the image, each (y, x)."""

    extents: tuple[int, int]
    steps: tuple[int, int]
    padding: tuple[int, int] = (0, 0)

    def results(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the result over an image."""
        return (
            (height + 2 * self.padding[0] - self.extents[0]) // self.steps[0] + 1,
            (width + 2 * self.padding[1] - self.extents[1]) // self.steps[1] + 1,
        )

    def rows_of(self, out_rows: int) -> int:
        """Number of input rows that some rows of the result need."""
        return (out_rows - 1) * self.steps[0] + self.extents[0]

    def line(self, source: Data, channels: int) -> int:
        """Elements of a padded row of some channels."""
        return (source.extents[2] + 2 * self.padding[1]) * channels

    def first_row(self, group: int, group_rows: int) -> int:
        """The first input row of a group of output rows; negative in the padding."""
        return group * group_rows * self.steps[0] - self.padding[0]


def row_loads(
    source: Data,
    buffer: ScratchpadBuffer,
    window: Window,
    place: tuple[int, int],
    first: int,
    count: int,
) -> tuple[Load, ...]:
    """The loads of `count` input rows from `first` on, for one segment of channels; `place` is
    (image, segment of channels). Padding is left unwritten.
    """
    image, part = place
    channels = source.layout.shape((0, 0, 0, part))[3]
    line, width = window.line(source, channels), source.extents[2]
    found = []
    for row, rows in _runs(source, window, range(first, first + count)):
        local = buffer.address + (row - first) * line + window.padding[1] * channels
        offset = source.layout.element((image, row, 0, part * source.segments[3]))
        found.append(Load("vector", local, rows * width * channels, source.name, offset))
    return tuple(found)


def is_padded(source: Data, window: Window, first: int, count: int) -> bool:
    """True if some of the rows or columns lie in the padding."""
    return window.padding[1] > 0 or first < 0 or first + count > source.extents[1]


def _runs(source: Data, window: Window, rows: range) -> Iterator[tuple[int, int]]:
    """Runs of image rows that are contiguous both here and in main memory: first and count."""
    height, segment = source.extents[1], source.segments[1]
    inside = range(max(rows.start, 0), min(rows.stop, height))
    whole = window.padding[1] == 0
    row = inside.start
    while row < inside.stop:
        end = row + 1
        if whole:
            end = inside.stop
            if source.layout.counts[3] > 1:
                end = min(end, (row // segment + 1) * segment)
        yield row, end - row
        row = end
