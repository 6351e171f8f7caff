"""A pipeline run as plain text: timeline, stalls, pressure per unit.

Timeline (one row per issued instruction, one column per cycle):

    cycle           0         10
                    012345678901
    [  0]    P1     eeeE          vldd $1, 0($31)
    [  1]    P0      ===eeeeeeE   vmad $1, $1, $1, $2

`=` it is the oldest and waits, `e` it executes, `E` its result becomes readable after this cycle.
The glyphs are those of llvm-mca. The number in brackets is the instruction's place in the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.isa.modulo import ModuloSchedule
from tilewright.report.minimum import minimum_text
from tilewright.report.pipeline import Loop, PipelineReport, hottest_loop, pipeline_report
from tilewright.simulate.runs import CoreRun, Issue

_LEFT = 16


def pipeline_text(
    run: CoreRun, best: ModuloSchedule | None = None, timeline_cycles: int = 64
) -> str:
    """Summary, timeline from the start of the steady state, stalls and pressure; and the `best`
    schedule of the hottest loop, where one was searched.
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


def _timeline_row(run: CoreRun, issue: Issue, previous: int, first: int, width: int) -> str:
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


def stall_text(run: CoreRun, instructions: int = 8) -> str:
    """Cycles by cause, by register waited for, and the instructions that waited longest."""
    total = max(run.cycles, 1)
    rows = [("issuing", run.issue_cycles), *_descending(run.stalls)]
    lines = ["cause                    cycles       %"]
    lines += [f"{cause:<22}{n:>9}{100 * n / total:>8.1f}" for cause, n in rows]
    lines.append(f"{'total':<22}{run.cycles:>9}{100 * run.cycles / total:>8.1f}")
    if run.hazards:
        pairs = ", ".join(f"{name} {n}" for name, n in _descending(run.hazards))
        lines.append(f"waited for registers (cycles): {pairs}")
    worst = sorted(enumerate(run.stalled.tolist()), key=lambda pair: -pair[1])[:instructions]
    for number, waited in worst:
        if waited:
            lines.append(f"{waited:>9} cycles before [{number}] {run.instruction(number).text()}")
    return "\n".join(lines)


def pressure_text(run: CoreRun) -> str:
    """Busy fraction of each unit, then issues per execution of each instruction on each unit."""
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


def _steady_start(run: CoreRun, loop: Loop) -> int:
    """The cycle behind the loop's second branch: the first iteration that is not the first."""
    ends = [issue.cycle for issue in run.issues if issue.instruction == loop.last]
    return ends[min(1, len(ends) - 1)] + 1 if len(ends) > 2 else 0
