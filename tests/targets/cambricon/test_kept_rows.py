"""Rows that neighbouring parts of an image share are fetched once."""

from __future__ import annotations

import tilewright as tw
from tilewright.ir.nodes import If, Transfer
from tilewright.ir.visit import walk
from tilewright.targets.cambricon.code import image_of
from tilewright.targets.cambricon.runtime import Device

CHANNELS, ROWS, COLUMNS = 64, 24, 75
LATENCY, BYTES_PER_CYCLE = 100, 256


def test_a_part_of_an_image_keeps_rows_of_the_one_before() -> None:
    """Parts of two rows have four with those around: each row of the image and its border is loaded
    once; the device has the bits and the cycles of the program.
    """
    op = tw.ops.conv2d(
        batch=1,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        height=ROWS,
        width=COLUMNS,
        kernel=3,
        padding=1,
        dtype="q8.8:q48.16:q8.8",
    )
    kernel = tw.compile(op, machine="dla-al", algorithm="gathered_windows").plan.only
    loads = [
        [s for s in branch if isinstance(s, Transfer) and s.direction == "get"]
        for stmt in walk(kernel.program.body)
        if isinstance(stmt, If)
        for branch in (stmt.then, stmt.orelse)
    ]
    (new,), (whole,) = (own for own in loads if own)
    assert [str(t.ranges[2].extent) for t in (new, whole)] == ["2", "4"]
    assert kernel.check() == "exact"
    run = Device(image_of(kernel.artifact, kernel.machine), kernel.machine).launch(values=False)
    row, weights = 2 * (COLUMNS + 2) * CHANNELS, 2 * 9 * CHANNELS * CHANNELS
    moved = weights + (ROWS + 2) * row + 2 * ROWS * COLUMNS * CHANNELS
    assert run.unit_busy["TRANSFER"] == (1 + ROWS // 2 * 2) * LATENCY + moved / BYTES_PER_CYCLE
    assert abs(kernel.estimate_cycles - run.cycles) <= 0.02 * run.cycles
