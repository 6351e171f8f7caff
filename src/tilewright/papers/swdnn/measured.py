"""The batch-aware plan of the public swDNN kernels against their measured speed on four groups.

In: the measured rows (or a user's, `--rows`). Each row is simulated with the plan's own order of
transfers (`batch_aware`) and its own matrix product, instruction by instruction (`kernel`), on the
machine `sw26010_measured`. Three of that machine's constants were fitted to the rows of batch 128
with 128 or 256 input channels (benchmarks/fit_measured.py); all other rows are held out.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from msgspec import Struct

from tilewright.cost.calls import Costs
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine, load_machine
from tilewright.papers.figures import scatter
from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Result, Row, compare, deviation_summary
from tilewright.papers.swdnn.batch_aware import BatchAware, batch_aware_program
from tilewright.papers.swdnn.kernel import swdnn_gemm_cost
from tilewright.simulate.kernel.level import simulate

TITLE = "measured swDNN kernels on four core groups"
MACHINE = "sw26010_measured"
GROUPS, KERNEL = 4, 3
FITTED_BATCH, FITTED_IN_CHANNELS = 128, (128, 256)
_QUICK_ROWS = 16


class MeasuredRow(Struct, frozen=True):
    """One measured run: `output` rows and columns of results, `stride` columns kept."""

    batch: int
    in_channels: int
    out_channels: int
    stride: int
    output: int
    gflops: float

    @property
    def name(self) -> str:
        """As the tables list it."""
        return (
            f"B {self.batch}, Ni {self.in_channels}, No {self.out_channels}, "
            f"S {self.stride}, {self.output} x {self.output}"
        )

    @property
    def fitted(self) -> bool:
        """Whether the machine's constants were fitted to it."""
        return self.batch == FITTED_BATCH and self.in_channels in FITTED_IN_CHANNELS


class Simulated(Struct, frozen=True):
    """Cycles of one group with spawn and join, and what they were spent on."""

    cycles: int
    flops: int
    by_kind: dict[str, int]


def run(lab: Lab) -> Result:
    """Every row, with errors of the fitted and of the held-out ones."""
    table = lab.published("swdnn", "measured", MeasuredRow)
    cases = lab.some(table.rows, _QUICK_ROWS)
    found = lab.map(simulated, cases)
    rows = [_row(case, result) for case, result in zip(cases, found, strict=True)]
    summary = {**_errors("all", rows), "rank correlation": rank_correlation(rows)}
    for name, wanted in (("fitted", True), ("held out", False)):
        summary |= _errors(
            name, [r for c, r in zip(cases, rows, strict=True) if c.fitted == wanted]
        )
    return Result(
        paper="swdnn",
        experiment="measured",
        title=TITLE,
        rows=tuple(rows),
        summary=summary,
        notes=(f"published: {table.source}", *_NOTES),
    )


_NOTES = (
    "fitted to the rows of batch 128 with 128 or 256 input channels: a taken branch costs 6 cycles,"
    " a block of the matrix product 36.5 cycles per mesh step beyond its instructions, and a block"
    " of filters, which all groups read together, 2.6 instead of 0.9 transactions of overhead;"
    " everything else is Table II, the STREAM rows and instruction timing",
)


def draw(result: Result) -> Figure:
    """Simulated over measured."""
    points: dict[str, list[tuple[float, float]]] = {"fitted": [], "held out": []}
    for row in result.rows:
        if row.published is not None and row.ours is not None:
            points[row.note or "held out"].append((row.published, row.ours))
    return scatter(points, title=TITLE, x_label="measured Gflop/s", y_label="simulated Gflop/s")


def simulated(case: MeasuredRow) -> Simulated:
    """One row on the machine with the fitted constants."""
    return simulate_row(case, load_machine(MACHINE))


def simulate_row(case: MeasuredRow, machine: Machine) -> Simulated:
    """One row on any machine. Raises ExperimentError where four groups do not divide its rows."""
    if case.output % GROUPS:
        raise ExperimentError(
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
    """Of all groups together."""
    return result.flops / result.cycles * machine.clock_hz / 1e9


def _row(case: MeasuredRow, result: Simulated) -> Row:
    ours = gflops(result, load_machine(MACHINE))
    note = "fitted" if case.fitted else ""
    return compare(case.name, case.gflops, ours, "simulated", note=note, unit="Gflop/s")


def _errors(name: str, rows: list[Row]) -> dict[str, float | str]:
    return {f"{name}, {key}": value for key, value in deviation_summary(rows).items()}


def rank_correlation(rows: list[Row]) -> float:
    """Spearman's, equal values with their mean rank."""
    published = _ranks([row.published or 0.0 for row in rows])
    ours = _ranks([row.ours or 0.0 for row in rows])
    if len(rows) < 2 or not published.std() or not ours.std():
        return float("nan")
    return round(float(np.corrcoef(published, ours)[0, 1]), 3)


def _ranks(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(count) - (count - 1) / 2
    return np.asarray(mean_rank[place], np.float64)
