"""Activity of a core with a window of long operations: cycles by cause, units, operations.

In: a `WindowRun` and its instructions. Out: a `WindowReport` (the `--json` form), a text with one
line for each operation, and trace events for ui.perfetto.dev.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from tilewright.isa import Instruction
from tilewright.machine import Machine
from tilewright.report.table import duration
from tilewright.simulate.window.run import WindowRun

_BAR = 60


class UnitRow(Struct, frozen=True):
    """A unit of long operations: busy cycles, and idle cycles by cause; they sum to the run's."""

    name: str
    busy_cycles: int
    idle_cycles: dict[str, int]


class WindowReport(Struct, frozen=True):
    """A run in numbers: `issue_cycles` and `stalls` by cause sum to `cycles`."""

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
        f"  {'issuing':16}{_share(report.issue_cycles, report.cycles)}",
    ]
    rows += [f"  {cause:16}{_share(c, report.cycles)}" for cause, c in report.stalls.items()]
    for unit in report.units:
        idle = ", ".join(f"{cause} {cycles}" for cause, cycles in unit.idle_cycles.items())
        rows.append(f"{unit.name:10}busy {_share(unit.busy_cycles, report.cycles)}; idle: {idle}")
    if timeline:
        rows += ["", *_timeline(run, instructions, timeline)]
    return "\n".join(rows) + "\n"


def _share(cycles: int, total: int) -> str:
    return f"{cycles:>12} {100 * cycles / max(total, 1):5.1f} %"


def _timeline(run: WindowRun, instructions: Sequence[Instruction], count: int) -> list[str]:
    """One line for each operation: waiting in the window as dots, running as its unit's letter."""
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


def window_perfetto_json(run: WindowRun, instructions: Sequence[Instruction], name: str) -> str:
    """The operations of a run, a track for each unit, and its stalls, as Chrome trace events.

    The viewers know only microseconds: a cycle is shown as one.
    """
    units = list(dict.fromkeys(event.unit for event in run.events))
    tracks = [f"{unit} (cycles)" for unit in units] + ["stalls (cycles)"]
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": name}}
    ]
    events += [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": track}}
        for thread, track in enumerate(tracks, 1)
    ]
    for event in run.events:
        args: dict[str, object] = {"instruction": event.number, "issue_cycle": event.issue}
        text = instructions[event.number].text()
        place = units.index(event.unit) + 1
        events.append(_slice(place, event.start, event.end, text, args))
    for stall in run.stalled:
        waiting = {"waiting": instructions[stall.number].text()}
        events.append(_slice(len(tracks), stall.start, stall.stop, stall.cause.value, waiting))
    other = {"cycles": run.cycles, "unit": "1 cycle is shown as 1 us"}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other})


def _slice(thread: int, start: int, stop: int, name: str, args: object) -> dict[str, object]:
    return {
        "ph": "X", "pid": 1, "tid": thread, "ts": start, "dur": stop - start, "name": name,
        "args": args,
    }  # fmt: skip
