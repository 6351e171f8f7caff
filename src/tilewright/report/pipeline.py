"""Activity of one core's pipeline: cycles per iteration, stalls by cause, pressure per unit.

In: a traced `CoreRun`. Out: a `PipelineReport`, the `--json` contract of the pipeline command; its
texts follow below, its trace events are in `report.perfetto`. A core with a window of long
operations has a `WindowReport` of its `WindowRun`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType
from numpy.typing import NDArray

from tilewright.isa import Instruction
from tilewright.isa.modulo import ModuloSchedule
from tilewright.isa.modulo_bounds import IntervalBounds
from tilewright.machine import Machine
from tilewright.report.table import duration
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.runs import CoreRun, IssuedInstruction
from tilewright.simulate.window.run import WindowRun


class PipelineReport(Struct, frozen=True):
    """A simulated pipeline run in numbers.

    `instructions` is the length of the loop body (of the program, without a loop); `iterations`
    counts runs of its last instruction. `cycles_per_iteration` is the steady state's. `stalls` are
    cycles of the whole run without issue, `units` busy cycles over total cycles. `proven_minimum`
    is a proven lower bound on the cycles per iteration, if there is one. If the run failed,
    `failure` says why, and all numbers but the loop body's length and bound are zero.
    """

    machine: str
    instructions: int
    iterations: int
    cycles_per_iteration: float
    total_cycles: int
    stalls: dict[str, int]
    units: dict[str, float]
    proven_minimum: int | None = None
    failure: str | UnsetType = UNSET

    def json(self) -> str:
        """The report as JSON text."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class _Loop:
    """The innermost loop that ran most often: instructions `first` .. `last` (the branch).

    `iteration_cycles` are the distances between successive branches in the longest stretch without
    leaving the loop.
    """

    first: int
    last: int
    iterations: int
    iteration_cycles: tuple[int, ...]

    @property
    def steady_cycles(self) -> float:
        """Cycles per iteration of the pattern that the last iterations repeat, else the mean."""
        cycles = self.iteration_cycles
        for period in range(1, len(cycles) // 2 + 1):
            if cycles[-period:] == cycles[-2 * period : -period]:
                return sum(cycles[-period:]) / period
        return sum(cycles) / len(cycles)


def pipeline_report(run: CoreRun, proven_minimum: int | None = None) -> PipelineReport:
    """The numbers of a run; without a trace or a loop, the whole program is one iteration."""
    loop = hottest_loop(run)
    total = max(run.cycles, 1)
    return PipelineReport(
        machine=run.program.table.name,
        instructions=loop.last - loop.first + 1 if loop else len(run.program.instructions),
        iterations=loop.iterations if loop else 1,
        cycles_per_iteration=loop.steady_cycles if loop else float(run.cycles),
        total_cycles=run.cycles,
        stalls=dict(run.stalls),
        units={unit: busy / total for unit, busy in run.unit_busy.items()},
        proven_minimum=proven_minimum,
    )


def hottest_loop(run: CoreRun) -> _Loop | None:
    """The loop whose backward branch issued most often; None when none repeats in the trace."""
    numbers = np.array([issue.instruction for issue in run.issues], np.int64)
    cycles = np.array([issue.cycle for issue in run.issues], np.int64)
    found = [
        loop
        for last, first in _backward_branches(run.program)
        if (loop := _loop(numbers, cycles, first, last)) is not None
    ]
    return max(found, key=lambda loop: (loop.iterations, loop.first - loop.last), default=None)


def longest_loop(program: AssembledProgram) -> tuple[int, int] | None:
    """(first instruction, branch) of the program's longest innermost loop; None without backward
    branches.
    """
    found = [(first, last) for last, first in _backward_branches(program)]
    inner = [
        loop
        for loop in found
        if not any(o != loop and loop[0] <= o[0] and o[1] <= loop[1] for o in found)
    ]
    return max(inner, key=lambda loop: loop[1] - loop[0], default=None)


def _backward_branches(program: AssembledProgram) -> list[tuple[int, int]]:
    """(branch, target) of every backward branch, as instruction numbers."""
    labels, pairs = program.labels, []
    for number, instruction in enumerate(program.instructions):
        target = instruction.target
        if target is None:
            continue
        place = number + 1 + target if isinstance(target, int) else labels.get(target.name)
        if place is not None and place <= number:
            pairs.append((number, place))
    return pairs


def _loop(
    numbers: NDArray[np.int64], cycles: NDArray[np.int64], first: int, last: int
) -> _Loop | None:
    """The loop of one branch, if two of its iterations are consecutive."""
    ends = np.flatnonzero(numbers == last)
    if len(ends) < 2:
        return None
    left = np.cumsum((numbers < first) | (numbers > last))
    inside = left[ends[1:]] == left[ends[:-1]]
    distances = np.diff(cycles[ends])
    stretches = np.split(np.arange(len(inside)), np.flatnonzero(~inside) + 1)
    longest = max((s[inside[s]] for s in stretches), key=len)
    if len(longest) == 0:
        return None
    return _Loop(first, last, len(ends), tuple(distances[longest].tolist()))


# The shortest schedule of a loop as text: its slots, and the proof that no iteration is faster.
#
# The minimum holds for the loop body with its own register names: renaming registers, or unrolling
# with several sets of names, may do better.


def minimum_text(best: ModuloSchedule) -> str:
    """The schedule slot by slot, and the reasons for the bound, one per line.

    The column `iteration` counts from the iteration that the branch decides on: `-1` is the one
    before.
    """
    cycles = best.interval_cycles
    head = f"shortest schedule found: {cycles} cycles per iteration"
    lines = [head, "slot  iteration"]
    for index in sorted(range(len(best.times)), key=lambda i: best.times[i] % cycles):
        stage, slot = divmod(best.times[index], cycles)
        lines.append(f"{slot:>4}  {-stage:>9}  {best.graph.operations[index].name}")
    return "\n".join([*lines, *_reasons(best)])


def _reasons(best: ModuloSchedule) -> list[str]:
    bound = best.lower_bound_cycles
    if bound == 1:
        return ["an iteration cannot take less than a cycle"]
    lines = [f"why not {bound - 1} cycles, with these register names:"]
    if bound - 1 in best.refuted_intervals:
        lines.append("  every order of the body was excluded by search")
    else:
        lines += [f"  {reason}" for reason in _binding(best.bounds, bound)]
    if best.interval_cycles > bound:
        gaps = ", ".join(map(str, best.undecided_intervals)) or "none"
        lines.append(f"whether {bound} cycles suffice is open; the search gave up at {gaps}")
    return lines


def _binding(bounds: IntervalBounds, bound: int) -> list[str]:
    """The constraints that alone take `bound` cycles per iteration."""
    reasons = [
        (cycles, f"the instructions that only {name} can take keep it busy for {cycles} cycles")
        for name, cycles in bounds.resource_cycles
    ]
    reasons += [
        (bounds.issue_cycles, f"issuing the body takes {bounds.issue_cycles} cycles"),
        (
            bounds.recurrence_cycles,
            f"a value needs {bounds.recurrence_cycles} cycles from one iteration to the next",
        ),
        (
            bounds.control_cycles,
            f"the instructions that decide on the branch take {bounds.control_cycles} cycles",
        ),
    ]
    return [text for cycles, text in reasons if cycles >= bound]


# A pipeline run as plain text: timeline, stalls, pressure per unit.
#
# Timeline (one row per issued instruction, one column per cycle):
#
#     cycle           0         10
#                     012345678901
#     [  0]    P1     eeeE          vldd $1, 0($31)
#     [  1]    P0      ===eeeeeeE   vmad $1, $1, $1, $2
#
# `=` oldest instruction, waiting; `e` executing; `E` result readable after this cycle. The glyphs
# are those of llvm-mca. The number in brackets is the instruction's place in the program.

_LEFT = 16
_WORST = 8
"""Instructions shown as having waited longest."""


def pipeline_text(run: CoreRun, best: ModuloSchedule | None, timeline_cycles: int) -> str:
    """Summary, timeline from the start of the steady state, stalls and pressure, and the `best`
    schedule of the hottest loop if one was searched.
    """
    proven = None if best is None else best.lower_bound_cycles
    report, loop = pipeline_report(run, proven), hottest_loop(run)
    first = _steady_start(run, loop) if loop else 0
    parts = [
        summary_text(report),
        timeline_text(run, first, timeline_cycles),
        stall_text(run),
        pressure_text(run),
        *([minimum_text(best)] if best else []),
    ]
    return "\n\n".join(parts) + "\n"


def summary_text(report: PipelineReport) -> str:
    """The totals, one per line."""
    lines = [
        f"machine               {report.machine}",
        f"instructions          {report.instructions} per iteration",
        f"iterations            {report.iterations}",
        f"cycles per iteration  {_number(report.cycles_per_iteration)}",
        f"total cycles          {report.total_cycles}",
    ]
    if report.proven_minimum is not None:
        minimum = f"{report.proven_minimum} cycles per iteration with these register names"
        lines.append(f"proven minimum        {minimum}")
    return "\n".join(lines)


def timeline_text(run: CoreRun, first_cycle: int = 0, cycles: int = 64) -> str:
    """The instructions issued in a range of cycles; needs a trace."""
    end = min(first_cycle + cycles, run.cycles + run.drain_cycles)
    width = max(end - first_cycle, 0)
    tens = "".join(f"{c:<10}" if c % 10 == 0 else "" for c in range(first_cycle, end))
    lead = " " * (-first_cycle % 10)
    lines = [
        f"{'cycle':<{_LEFT}}{(lead + tens)[:width].rstrip()}",
        f"{'':<{_LEFT}}{''.join(str(c % 10) for c in range(first_cycle, end))}",
    ]
    previous = -1
    for issue in run.issues:
        if first_cycle <= issue.cycle < end:
            lines.append(_timeline_row(run, issue, previous, first_cycle, width))
        previous = issue.cycle
    return "\n".join(lines)


def _timeline_row(
    run: CoreRun, issue: IssuedInstruction, previous: int, first: int, width: int
) -> str:
    instruction = run.instruction(issue.instruction)
    glyphs = [" "] * width
    for cycle in range(max(previous + 1, first), issue.cycle):
        glyphs[cycle - first] = "="
    for number in range(instruction.latency_cycles):
        place = issue.cycle - first + number
        if place < width:
            glyphs[place] = "E" if number == instruction.latency_cycles - 1 else "e"
    head = f"[{issue.instruction:>3}]    {issue.unit:<6}"
    return f"{head:<{_LEFT}}{''.join(glyphs)}  {instruction.text()}"


def stall_text(run: CoreRun) -> str:
    """Cycles by cause, by register waited for, and the instructions that waited longest."""
    total = max(run.cycles, 1)
    rows = [("issuing", run.issue_cycles), *_descending(run.stalls)]
    lines = ["cause                    cycles       %"]
    lines += [f"{cause:<22}{n:>9}{100 * n / total:>8.1f}" for cause, n in rows]
    lines.append(f"{'total':<22}{run.cycles:>9}{100 * run.cycles / total:>8.1f}")
    if run.hazards:
        pairs = ", ".join(f"{name} {n}" for name, n in _descending(run.hazards))
        lines.append(f"waited for registers (cycles): {pairs}")
    worst = sorted(enumerate(run.stalled.tolist()), key=lambda pair: -pair[1])[:_WORST]
    for number, waited in worst:
        if waited:
            lines.append(f"{waited:>9} cycles before [{number}] {run.instruction(number).text()}")
    return "\n".join(lines)


def pressure_text(run: CoreRun) -> str:
    """Busy fraction of each unit, then each instruction's distribution over the units."""
    units, total = list(run.unit_busy), max(run.cycles, 1)
    lines = ["resource pressure", "        " + "".join(f"{unit:>8}" for unit in units)]
    fractions = (100 * run.unit_busy[unit] / total for unit in units)
    lines.append("busy %  " + "".join(f"{fraction:>8.1f}" for fraction in fractions))
    counts: dict[tuple[int, str], int] = {}
    for issue in run.issues:
        key = (issue.instruction, issue.unit)
        counts[key] = counts.get(key, 0) + 1
    for number, instruction in enumerate(run.program.instructions):
        row = [counts.get((number, unit), 0) for unit in units]
        if any(row):
            cells = "".join(_share(n, sum(row)) for n in row)
            lines.append(f"[{number:>3}]   {cells}  {instruction.text()}")
    return "\n".join(lines)


def _share(count: int, total: int) -> str:
    return f"{count / total:>8.2f}" if count else f"{'-':>8}"


def _descending(values: dict[str, int]) -> Sequence[tuple[str, int]]:
    return sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def _steady_start(run: CoreRun, loop: _Loop) -> int:
    """The cycle after the loop's second branch, past its first iterations; else 0."""
    ends = [issue.cycle for issue in run.issues if issue.instruction == loop.last]
    return ends[min(1, len(ends) - 1)] + 1 if len(ends) > 2 else 0


_BAR = 60


class UnitRow(Struct, frozen=True):
    """A unit of long operations: busy cycles, and idle cycles by cause; they sum to the run's."""

    name: str
    busy_cycles: int
    idle_cycles: dict[str, int]


class WindowReport(Struct, frozen=True):
    """A window run in numbers: `issue_cycles` and `stalls` by cause sum to `cycles`."""

    machine: str
    instructions: int
    executed: int
    cycles: int
    milliseconds: float
    issue_cycles: int
    stalls: dict[str, int]
    units: tuple[UnitRow, ...]


def window_report(run: WindowRun, machine: Machine, instructions: int) -> WindowReport:
    """The numbers of a run; `instructions` is the length of the program."""
    units = dict.fromkeys(event.unit for event in run.events)
    return WindowReport(
        machine=machine.name,
        instructions=instructions,
        executed=run.instructions,
        cycles=run.cycles,
        milliseconds=1e3 * run.cycles / machine.clock_hz,
        issue_cycles=run.issue_cycles,
        stalls=run.stalls,
        units=tuple(UnitRow(unit, run.unit_busy[unit], run.idle(unit)) for unit in units),
    )


def window_text(
    run: WindowRun, report: WindowReport, instructions: Sequence[Instruction], timeline: int
) -> str:
    """Cycles by cause, the units, and the first `timeline` operations as bars."""
    rows = [
        f"{report.executed} instructions on {report.machine}: {report.cycles} cycles simulated, "
        f"{duration(report.milliseconds)}",
        f"  {'issuing':16}{_cycles_text(report.issue_cycles, report.cycles)}",
    ]
    rows += [f"  {cause:16}{_cycles_text(c, report.cycles)}" for cause, c in report.stalls.items()]
    for unit in report.units:
        idle = ", ".join(f"{cause} {cycles}" for cause, cycles in unit.idle_cycles.items())
        busy = _cycles_text(unit.busy_cycles, report.cycles)
        rows.append(f"{unit.name:10}busy {busy}; idle: {idle}")
    if timeline:
        rows += ["", *_timeline(run, instructions, timeline)]
    return "\n".join(rows) + "\n"


def _cycles_text(cycles: int, total: int) -> str:
    return f"{cycles:>12} {100 * cycles / max(total, 1):5.1f} %"


def _timeline(run: WindowRun, instructions: Sequence[Instruction], count: int) -> list[str]:
    """One line per operation: dots while waiting in the window, its unit's letter while running."""
    events = run.events[:count]
    if not events:
        return []
    first, last = events[0].issue, max(event.end for event in events)
    scale = max(last - first, 1) / _BAR
    texts = [instructions[event.number].text() for event in events]
    width = max(map(len, texts))
    rows = [f"{'issue':>8} {'start':>8} {'end':>8}  {'':{width}}  cycles {first} to {last}"]
    for event, text in zip(events, texts, strict=True):
        issue, start, end = (
            int((c - first) / scale) for c in (event.issue, event.start, event.end)
        )
        bar = " " * issue + "." * (start - issue) + event.unit[0] * max(end - start, 1)
        rows.append(f"{event.issue:>8} {event.start:>8} {event.end:>8}  {text:{width}}  {bar}")
    if len(run.events) > count:
        rows.append(f"{len(run.events) - count} more operations")
    return rows
