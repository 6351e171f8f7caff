"""Figures and explanations as text: one function per form, dispatched on the value's type.

In: a struct of `report.view`, `network.results`, `network.explain` or `report.division`, and the
machine. Out: tables and lines.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from rich.console import Console, RenderableType

from tilewright.common.limits import PAGE
from tilewright.machine import Machine
from tilewright.network.explain import MeasuredExplanation, NetworkExplanation
from tilewright.network.results import NetworkRun
from tilewright.ops.numerics import sums_called
from tilewright.report import network
from tilewright.report.explain import explain_text, roofline_text, stage_text
from tilewright.report.table import duration, layer_table, schedule_legend, total_lines
from tilewright.report.view import Explanation, NetworkResult, RunResult, StageExplanation

_WIDE = 140
"""Columns from which tables show schedules."""


@dataclass(frozen=True)
class Shown:
    """Context of a text: the machine, and the number of columns."""

    machine: Machine
    columns: int = PAGE

    @property
    def is_wide(self) -> bool:
        """True if a table has room for schedules."""
        return self.columns >= _WIDE


def figures_text(found: object, machine: Machine) -> str:
    """Figures as text of a page's width."""
    text = io.StringIO()
    console = Console(file=text, width=PAGE)
    for part in figure_lines(found, Shown(machine)):
        console.print(part, markup=False, highlight=False, soft_wrap=True)
    return text.getvalue()


@singledispatch
def figure_lines(found: object, shown: Shown) -> Iterator[RenderableType]:
    """Tables and lines of any figures. Raises TypeError for other values."""
    raise TypeError(f"{type(found).__name__} on {shown.machine.name}: no figures")


@figure_lines.register
def _(found: NetworkResult, shown: Shown) -> Iterator[RenderableType]:
    machine, schedules = shown.machine, shown.is_wide
    yield layer_table(found, machine.clock_hz, schedules=schedules)
    yield total_lines(found, machine.peak_flops_of(sums_called(found.dtype)))
    if schedules and (legend := schedule_legend(x.schedule for x in found.layers)):
        yield legend
    for check in found.checks:
        counts = {"image": check.images, "row": check.rows}
        less = " of ".join(network.counted(n, what) for what, n in counts.items() if n is not None)
        name = f"{check.name} for {less}" if less else check.name
        yield f"{check.algorithm}: code of {name} ({check.shape}) is {check.check}"


@figure_lines.register
def _(found: RunResult, shown: Shown) -> Iterator[RenderableType]:
    layer = found.layer
    estimate = layer.estimate_cycles / shown.machine.clock_hz * 1e3
    longest = max(estimate, layer.milliseconds)
    model = f"{duration(estimate, longest)} by the model"
    times = f"{duration(layer.milliseconds, longest)} measured, {model}"
    if layer.timed_by != "measured":
        times = f"{model}, not measured"
    yield f"{layer.name}: {layer.shape}, {layer.algorithm} on {found.machine}"
    yield (
        f"result: {found.check}, error {found.error:.1e} of the largest value, "
        f"{layer.expected_error:.1e} expected"
    ) + (f", written to {found.output}" if found.output else "")
    yield f"{times}; {layer.gflops:.1f} Gflop/s, {100 * layer.peak_fraction:.1f} % of peak"


@figure_lines.register
def _(found: Explanation, _shown: Shown) -> Iterator[RenderableType]:
    yield explain_text(found).rstrip("\n")
    if found.roofline is not None:
        yield ""
        yield roofline_text(found.roofline, found.threads).rstrip("\n")


@figure_lines.register
def _(found: StageExplanation, _shown: Shown) -> Iterator[RenderableType]:
    yield stage_text(found)


@figure_lines.register
def _(found: NetworkRun, shown: Shown) -> Iterator[RenderableType]:
    yield _stages(found, shown)
    yield network.network_totals(found) if found.cycles is None else network.plan_totals(found)
    if found.output:
        yield f"written to {found.output}"


@figure_lines.register
def _(found: MeasuredExplanation, shown: Shown) -> Iterator[RenderableType]:
    yield from (_stages(found.run, shown), "", network.measured_explanation_text(found))


@figure_lines.register
def _(found: NetworkExplanation, shown: Shown) -> Iterator[RenderableType]:
    yield from (_stages(found.run, shown), "", network.network_explanation_text(found))


def _stages(found: NetworkRun, shown: Shown) -> RenderableType:
    """The table of stages, measured or simulated."""
    table = network.network_table if found.cycles is None else network.plan_table
    return table(found, shown.columns)
