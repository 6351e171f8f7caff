"""A core's pipeline as Chrome trace events, for ui.perfetto.dev or chrome://tracing.

One track per unit shows what occupied it, one the stalls with cause and register. The viewers know
only microseconds: one cycle is shown as one, which the track names say.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from tilewright.common.errors import SimulationError
from tilewright.simulate.runs import CoreRun, MeshRun

TraceEvent: TypeAlias = dict[str, Any]


def pipeline_perfetto_json(run: CoreRun | MeshRun, name: str) -> str:
    """The traced cores of a run as JSON text in the Trace Event Format.

    Raises SimulationError when no core was traced.
    """
    cores = run.cores if isinstance(run, MeshRun) else (run,)
    traced = [core for core in cores if core.issues]
    if not traced:
        raise SimulationError("the run has no trace", fix="simulate with traced_cores")
    events = [event for core in traced for event in _core_events(core, name)]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "machine": traced[0].program.table.name,
            "cycles": run.cycles,
            "complete": all(core.trace_complete for core in traced),
            "unit": "1 cycle is shown as 1 us",
        },
    }
    return json.dumps(document)


def _core_events(run: CoreRun, name: str) -> list[TraceEvent]:
    units = list(run.program.table.units)
    process = run.core + 1
    tracks = [f"{unit} (cycles)" for unit in units] + ["stalls (cycles)"]
    events: list[TraceEvent] = [
        _meta("process_name", process, 0, {"name": f"{name}, core {run.core}"})
    ]
    events += [
        _meta("thread_name", process, thread, {"name": track})
        for thread, track in enumerate(tracks, 1)
    ]
    for issue in run.issues:
        instruction = run.instruction(issue.instruction)
        args = {"instruction": issue.instruction, "latency_cycles": instruction.latency_cycles}
        slice_ = (issue.cycle, instruction.spec.occupancy_cycles, instruction.text())
        events.append(_slice(process, units.index(issue.unit) + 1, slice_, args))
    for span in run.spans:
        label = f"{span.cause} {span.register}".strip()
        waiting = {"waiting": run.instruction(span.instruction).text()}
        slice_ = (span.first_cycle, span.cycles, label)
        events.append(_slice(process, len(tracks), slice_, waiting))
    return events


def _meta(kind: str, process: int, thread: int, args: dict[str, str]) -> TraceEvent:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _slice(
    process: int, thread: int, slice_: tuple[int, int, str], args: dict[str, Any]
) -> TraceEvent:
    start, cycles, name = slice_
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start,
        "dur": cycles,
        "name": name,
        "args": args,
    }
