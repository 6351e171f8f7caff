"""The batch-aware plan of the public swDNN kernels against their measured speed on four groups.

In: the measured rows (or a user's, `--rows`). Each row is simulated with the plan's own order of
transfers (`batch_aware`) and its own matrix product, instruction by instruction (`kernel`), on the
machine `sw26010_measured`. Three constants of that machine were fitted to the rows of batch 128
with 128 or 256 input channels (benchmarks/fit_measured.py); all other rows are held out.

Runs of one core group under the same plan check the contention among four. Each layer of early logs
is simulated with its filters unshared, and as if three other groups read them too. No constant was
fitted to these rows: they tell whether sharing the filters makes them slow on four groups.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.cost.calls import Costs
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine, load_machine
from tilewright.papers import model
from tilewright.papers.figures import scatter
from tilewright.papers.lab import Lab
from tilewright.papers.swdnn.batch_aware import (
    CHANNELS,
    CORES,
    MESH,
    PIXELS,
    BatchAware,
    batch_aware_program,
    column_stride,
)
from tilewright.papers.swdnn.kernel import swdnn_gemm_cost
from tilewright.simulate.kernel.level import simulate

TITLES = {
    "measured": "measured swDNN kernels on four core groups",
    "single_group": "the batch-aware plan on one core group",
}
MACHINE = "sw26010_measured"
GROUPS, KERNEL = 4, 3
FITTED_BATCH, FITTED_IN_CHANNELS = 128, (128, 256)
_QUICK_ROWS = 16


class MeasuredRow(Struct, frozen=True):
    """One measured run: `output` rows and columns of results, `stride` columns kept locally."""

    batch: int
    in_channels: int
    out_channels: int
    stride: int
    output: int
    gflops: float

    @property
    def name(self) -> str:
        """The row's name in the tables."""
        return (
            f"B {self.batch}, Ni {self.in_channels}, No {self.out_channels}, "
            f"S {self.stride}, {self.output} x {self.output}"
        )

    @property
    def fitted(self) -> bool:
        """True if the machine's constants were fitted to the row, should it be a published one."""
        return self.batch == FITTED_BATCH and self.in_channels in FITTED_IN_CHANNELS


def require_runnable(case: MeasuredRow, where: str) -> None:
    """Raise ExperimentError, with the row's place, if it has no speed or the plan cannot run it."""
    for column, found, unit, why in (
        ("batch", case.batch, PIXELS, "the register blocks of a mesh take"),
        ("in_channels", case.in_channels, MESH, "the mesh divides"),
        ("out_channels", case.out_channels, CHANNELS, "the register blocks of a mesh take"),
        ("output", case.output, GROUPS, "the core groups divide"),
    ):
        if found < 1 or found % unit:
            raise model.ExperimentError(
                f"{column}: expected a multiple of {unit}, which {why}, found {found}", where=where
            )
    words = load_machine(MACHINE).spm_available_bytes * CORES // 8
    words -= 2 * case.in_channels * (case.batch + KERNEL * case.out_channels)
    most = words // (case.out_channels * case.batch)
    if not 1 <= case.stride <= most:
        allowed = (
            f"a number of 1 to {most}, the columns that fit the cores' memory beside inputs and "
            "filters"
            if most >= 1
            else "fewer channels or images: inputs and filters leave no room for a column"
        )
        raise model.ExperimentError(f"stride: expected {allowed}, found {case.stride}", where=where)
    if not 0 < case.gflops < math.inf:
        raise model.ExperimentError(
            f"gflops: expected a measured speed above 0, found {case.gflops:g}", where=where
        )


class Simulated(Struct, frozen=True):
    """Cycles of one group with spawn and join, and their causes."""

    cycles: int
    flops: int
    by_kind: dict[str, int]


def measured(lab: Lab) -> model.Findings:
    """Every row, with errors of the fitted and of the held-out ones.

    Raises ExperimentError for a user's row that the plan cannot run.
    """
    table = lab.published("swdnn", "measured", MeasuredRow)
    for case, place in zip(table.rows, table.places, strict=True):
        require_runnable(case, place)
    cases = lab.some(table.rows, _QUICK_ROWS)
    found = lab.map(_simulated, cases)
    shipped = lab.rows is None
    rows = [_row(c, r, fitted=shipped and c.fitted) for c, r in zip(cases, found, strict=True)]
    summary = _errors("all", rows)
    if (correlation := rank_correlation(rows)) is not None:
        summary["rank correlation"] = correlation
    for name, kind in (("fitted", "fitted"), ("held out", "simulated")) if shipped else ():
        summary |= _errors(name, [row for row in rows if row.kind == kind])
    return model.Findings(
        rows=tuple(rows), summary=summary, notes=(f"published: {table.source}", *_NOTES)
    )


_NOTES = (
    "fitted to the published rows of batch 128 with 128 or 256 input channels: a taken branch costs"
    " 6 cycles, a block of the matrix product 36.5 cycles per mesh step beyond its instructions,"
    " and a block of filters, which all groups read together, 2.6 instead of 0.9 transactions of"
    " overhead; everything else is Table II, the STREAM rows and instruction timing",
)


def draw_measured(result: model.Result) -> Figure:
    """Simulated over measured speed."""
    points: dict[str, list[tuple[float, float]]] = {"fitted": [], "held out": []}
    for row in result.rows:
        if row.published is not None and row.ours is not None:
            name = "fitted" if row.kind == "fitted" else "held out"
            points[name].append((row.published, row.ours))
    return scatter(
        points, title=TITLES["measured"], x_label="measured Gflop/s", y_label="simulated Gflop/s"
    )


def _simulated(case: MeasuredRow) -> Simulated:
    """One row simulated on the machine with the fitted constants."""
    return simulate_row(case, load_machine(MACHINE))


def simulate_row(case: MeasuredRow, machine: Machine) -> Simulated:
    """One row on any machine. Raises ExperimentError where four groups do not divide its rows."""
    if case.output % GROUPS:
        raise model.ExperimentError(
            f"{case.output} rows of results are not divided by {GROUPS} core groups",
            where=case.name,
        )
    part = BatchAware(
        case.batch,
        case.in_channels,
        case.out_channels,
        case.output // GROUPS,
        case.output,
        KERNEL,
        case.stride,
        GROUPS,
    )
    return simulate_part(part, machine)


def simulate_part(part: BatchAware, machine: Machine) -> Simulated:
    """One group's part of a layer."""
    costs: Costs = {**call_costs(machine), MatrixProduct: swdnn_gemm_cost}
    found = simulate(batch_aware_program(part), machine, costs=costs)
    return Simulated(
        found.cycles + machine.groups.launch_cycles, part.groups * part.flops, found.by_kind()
    )


def gflops(result: Simulated, machine: Machine) -> float:
    """Gflop/s of all groups together."""
    return result.flops / result.cycles * machine.clock_hz / 1e9


def _row(case: MeasuredRow, result: Simulated, *, fitted: bool) -> model.Row:
    ours = gflops(result, load_machine(MACHINE))
    kind: model.Kind = "fitted" if fitted else "simulated"
    return model.compare(case.name, case.gflops, ours, kind, unit="Gflop/s")


def _errors(name: str, rows: list[model.Row]) -> dict[str, float | str]:
    return {f"{name}, {key}": value for key, value in model.deviation_summary(rows).items()}


def rank_correlation(rows: list[model.Row]) -> float | None:
    """Spearman's correlation, ties at their mean rank; None where nothing can be ranked."""
    published = _ranks([row.published or 0.0 for row in rows])
    ours = _ranks([row.ours or 0.0 for row in rows])
    if len(rows) < 2 or not published.std() or not ours.std():
        return None
    return round(float(np.corrcoef(published, ours)[0, 1]), 3)


def _ranks(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(count) - (count - 1) / 2
    return np.asarray(mean_rank[place], np.float64)


# One core group.

_BATCH, _OUTPUTS = 128, (8, 32)


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


def single_group(lab: Lab) -> model.Findings:
    """Alone, then shared, for every logged pair of channels and both sizes of images."""
    table = lab.published("swdnn", "single_group", LoggedRange)
    cases = [
        (logged, SharedLayer(logged.in_channels, logged.out_channels, output, groups))
        for logged in table.rows
        for output in _OUTPUTS
        for groups in (1, 4)
    ]
    found = lab.map(_simulated_alone, [part for _, part in cases])
    rows = [_row_alone(*case, result) for case, result in zip(cases, found, strict=True)]
    alone = [
        (logged, row) for row, (logged, part) in zip(rows, cases, strict=True) if part.groups == 1
    ]
    return model.Findings(
        rows=tuple(rows),
        summary={
            "rows alone more than 2 % outside of what was logged": sum(
                not _inside(logged, row) for logged, row in alone
            )
        },
        notes=(f"published: {table.source}", "published is the middle of what was logged"),
    )


def _simulated_alone(part: SharedLayer) -> Simulated:
    """One group's work, simulated."""
    stride = column_stride(_BATCH, part.in_channels, part.out_channels, KERNEL)
    extents = (_BATCH, part.in_channels, part.out_channels, part.output, part.output)
    layer = BatchAware(*extents, KERNEL, stride, part.groups)
    return simulate_part(layer, load_machine(MACHINE))


def _row_alone(logged: LoggedRange, part: SharedLayer, result: Simulated) -> model.Row:
    ours = gflops(result, load_machine(MACHINE)) / part.groups
    middle = (logged.lowest_gflops + logged.highest_gflops) / 2
    name = f"Ni {part.in_channels}, No {part.out_channels}, {part.output} x {part.output}"
    whose = "filters to itself" if part.groups == 1 else "as if three other groups read the filters"
    note = f"{whose}; logged {logged.lowest_gflops:g} to {logged.highest_gflops:g}"
    logged_range = logged.lowest_gflops, logged.highest_gflops
    return model.compare(
        name, middle, ours, "simulated", note=note, unit="Gflop/s", limits=logged_range
    )


def _inside(logged: LoggedRange, row: model.Row) -> bool:
    ours = row.ours or 0.0
    return logged.lowest_gflops / 1.02 <= ours <= logged.highest_gflops * 1.02
