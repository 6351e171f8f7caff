"""One core group under the same plan: a check of the contention that four groups show.

In: what early logs say of one group. Each layer is simulated with its filters to itself, as one
group has them, and as if three other groups read them too. No constant was fitted to these rows:
they tell whether the filters' slowness on four groups comes from sharing them.
"""

from __future__ import annotations

from msgspec import Struct

from tilewright.machine import load_machine
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare
from tilewright.papers.swdnn.batch_aware import BatchAware, column_stride
from tilewright.papers.swdnn.measured import KERNEL, MACHINE, Simulated, gflops, simulate_part

TITLE = "the batch-aware plan on one core group"
BATCH, OUTPUTS = 128, (8, 32)


class LoggedRange(Struct, frozen=True):
    """Range of logged Gflop/s for one pair of channels over all sizes of images."""

    in_channels: int
    out_channels: int
    lowest_gflops: float
    highest_gflops: float


class SharedLayer(Struct, frozen=True):
    """One layer, alone or beside groups that read the same filters."""

    in_channels: int
    out_channels: int
    output: int
    groups: int


def run(lab: Lab) -> Findings:
    """Alone, then shared, for every logged pair of channels and both sizes of images."""
    table = lab.published("swdnn", "single_group", LoggedRange)
    cases = [
        (logged, SharedLayer(logged.in_channels, logged.out_channels, output, groups))
        for logged in table.rows
        for output in OUTPUTS
        for groups in (1, 4)
    ]
    found = lab.map(_simulated, [part for _, part in cases])
    rows = [_row(*case, result) for case, result in zip(cases, found, strict=True)]
    alone = [
        (logged, row) for row, (logged, part) in zip(rows, cases, strict=True) if part.groups == 1
    ]
    return Findings(
        rows=tuple(rows),
        summary={
            "rows alone more than 2 % outside of what was logged": sum(
                not _inside(logged, row) for logged, row in alone
            )
        },
        notes=(f"published: {table.source}", "published is the middle of what was logged"),
    )


def _simulated(part: SharedLayer) -> Simulated:
    """One group's work."""
    stride = column_stride(BATCH, part.in_channels, part.out_channels, KERNEL)
    extents = (BATCH, part.in_channels, part.out_channels, part.output, part.output)
    layer = BatchAware(*extents, KERNEL, stride, part.groups)
    return simulate_part(layer, load_machine(MACHINE))


def _row(logged: LoggedRange, part: SharedLayer, result: Simulated) -> Row:
    ours = gflops(result, load_machine(MACHINE)) / part.groups
    middle = (logged.lowest_gflops + logged.highest_gflops) / 2
    name = f"Ni {part.in_channels}, No {part.out_channels}, {part.output} x {part.output}"
    whose = "filters to itself" if part.groups == 1 else "as if three other groups read the filters"
    note = f"{whose}; logged {logged.lowest_gflops:g} to {logged.highest_gflops:g}"
    logged_range = logged.lowest_gflops, logged.highest_gflops
    return compare(name, middle, ours, "simulated", note=note, unit="Gflop/s", limits=logged_range)


def _inside(logged: LoggedRange, row: Row) -> bool:
    ours = row.ours or 0.0
    return logged.lowest_gflops / 1.02 <= ours <= logged.highest_gflops * 1.02
